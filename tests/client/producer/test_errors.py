"""A producer's exceptions can be pickled, so that a process pool can pass them to its parent."""

from __future__ import annotations

import pickle

import pytest

from stuntbroker import client
from stuntbroker.client.transactional_errors import FailureType, ProduceFailedError, ProducerError, ResponseError

EXPORTED = [getattr(client, name) for name in client.__all__]
KINDS = [kind for kind in EXPORTED if isinstance(kind, type) and issubclass(kind, ProducerError)]
ERRORS = [
    *(kind("what happened", 47) for kind in KINDS if kind is not ProduceFailedError),
    ProduceFailedError("what happened", FailureType.DELIVERY_FAILED, 7),
    ResponseError("Produce to orders-0", 47, "somebody has fenced it"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: ProducerError) -> None:
    error.reason = "who fenced it, and when"

    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is type(error)
    assert (str(copied), vars(copied)) == (str(error), vars(error))
    assert copied.code in (7, 47)
