"""What `arco.iceberg.metadata` offers is sorted and there."""

import arco.iceberg.metadata as metadata


def test_every_export_exists_once_and_in_order() -> None:
    names = metadata.__all__
    constants = [name for name in names if name.isupper()]
    classes = [name for name in names if name[0].isupper() and not name.isupper()]
    functions = [name for name in names if name[0].islower()]
    assert names == [*sorted(constants), *sorted(classes), *sorted(functions)]
    assert len(set(names)) == len(names)
    assert all(hasattr(metadata, name) for name in names)
