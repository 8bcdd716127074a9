"""What `arco.storage` offers is what its modules declare, and nothing else is reached from outside."""

import arco.storage


def test_every_export_exists_and_is_listed_once() -> None:
    exported = arco.storage.__all__
    assert len(exported) == len(set(exported))
    assert all(hasattr(arco.storage, name) for name in exported)


def test_nothing_public_is_left_out() -> None:
    public = {
        name
        for name, value in vars(arco.storage).items()
        if not name.startswith("_") and getattr(value, "__module__", "arco.storage").startswith("arco.storage")
    }
    assert public == set(arco.storage.__all__)
