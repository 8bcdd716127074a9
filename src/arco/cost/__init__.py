"""What a workspace costs: price tables, a model of requests and bytes, and what a live workspace tells."""

from arco.cost._bill import Bill, Line, bill
from arco.cost._counted import Counted, Share, by_class, price_counts
from arco.cost._load import Load, Scale, parse_model
from arco.cost._model import Estimate, Stored, model
from arco.cost._prices import CLASSES, Class, Prices, load_prices, prices_named
from arco.cost._profile import Kind, Profile, profile
from arco.cost._usage import Usage, measure_usage, requests_a_day

__all__ = [
    "CLASSES",
    "Bill",
    "Class",
    "Counted",
    "Estimate",
    "Kind",
    "Line",
    "Load",
    "Prices",
    "Profile",
    "Scale",
    "Share",
    "Stored",
    "Usage",
    "bill",
    "by_class",
    "load_prices",
    "measure_usage",
    "model",
    "parse_model",
    "price_counts",
    "prices_named",
    "profile",
    "requests_a_day",
]
