"""Conversion of requests and responses to plain values, and creation of error responses from the fields of a request."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from types import ModuleType
from typing import Any, Final, get_args, get_origin, get_type_hints

from stuntbroker.broker.configuration.listener_properties import is_secret
from stuntbroker.broker.requests.apis import NO_RESPONSE, OpaqueResponse
from stuntbroker.protocol.api_keys import APIS, PRODUCE
from stuntbroker.protocol.batches.records import HEADER_SIZE, read_header
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import ProduceResponse
from stuntbroker.protocol.primitives import ZERO_UUID, Message
from stuntbroker.protocol.produce_codec import QuickProduceResponse

ALL: Final = 1 << 31
UUID_SIZE: Final = 16
ERROR_CODE: Final = "error_code"
"""Suffix of the names of all fields with an error code."""

Plain = dict[str, Any]

HIDDEN: Final = "[hidden]"
"""Shown in place of a password."""


def plain_request(key: int, request: Any, elements_max: int = ALL) -> Plain:
    """Return the fields of a decoded request by Kafka's names. Records are represented by fields of their batch header.

    `elements_max`: maximum number of elements of each list.
    """
    if key == PRODUCE and isinstance(request, tuple):
        transactional_id, acks, topics = request
        return {
            "transactional_id": transactional_id,
            "acks": acks,
            "topic_data": [
                {
                    "name": name,
                    "topic_id": _plain(topic_id, 0),
                    "partition_data": [
                        {"index": index, **_plain_batch(data)} for index, data in islice(parts.items(), elements_max)
                    ],
                }
                for name, topic_id, parts in topics[:elements_max]
            ],
        }
    plain: Plain = _plain(request, elements_max)
    return plain


def plain_message(message: Message) -> Plain:
    """Return the fields of a request or response by Kafka's names."""
    plain: Plain = _plain(message, ALL)
    return plain


def _plain_batch(data: Any) -> Plain:
    if data is None or len(data) < HEADER_SIZE:
        return {"size": 0 if data is None else len(data)}
    header = read_header(data)
    return {
        "size": len(data),
        "records": header.count,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.transactional,
    }


def _plain(value: Any, elements_max: int) -> Any:
    if isinstance(value, Message):
        plain = {name: _plain(getattr(value, name), elements_max) for name in value.FIELDS}
        if plain.get("value") is not None and is_secret(str(plain.get("name"))):
            plain["value"] = HIDDEN
        return plain
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex() if len(value) == UUID_SIZE else {"size": len(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each, elements_max) for name, each in islice(value.items(), elements_max)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each, elements_max) for each in value[:elements_max]]
    return value


def response_class(key: int) -> type[Message]:
    """Return the class of an API's response."""
    return _class_of(key, "Response")


def _class_of(key: int, what: str) -> type[Message]:
    api = APIS[key]
    module = import_module(f"stuntbroker.protocol.messages.{api.module}_{what.lower()}")
    kind: type[Message] = getattr(module, f"{api.name}{what}")
    return kind


def sample_request(key: int) -> Plain:
    """Return the fields of an API's request, with one element in each list: it shows what such requests can name."""
    return _sample_of(_class_of(key, "Request"))


def _sample_of(kind: type[Message]) -> Plain:
    sample: Plain = {}
    hints = _hints(kind)
    for name in kind.FIELDS:
        hint = hints[name]
        element = _element_class(hint)
        if element is not None:
            sample[name] = [_sample_of(element)]
        elif any(get_origin(each) is Sequence for each in (hint, *get_args(hint))):
            sample[name] = ["x"] if "str" in str(hint) else [0]
        else:
            sample[name] = "x" if str in (hint, *get_args(hint)) else 0
    return sample


def readable_answer(key: int, version: int, answer: Any) -> Message | None:
    """Return the response as a Message; None for NO_RESPONSE, and for a long or corrupt response, which is opaque."""
    if answer is NO_RESPONSE or isinstance(answer, OpaqueResponse):
        return None
    message: Message = whole_answer(key, version, answer)
    return message


def whole_answer(key: int, version: int, answer: Any) -> Any:
    """Return the response as a Message, whichever class it has; NO_RESPONSE as it is.

    Decoding a long response takes up to a second.
    """
    if answer is NO_RESPONSE or isinstance(answer, Message):
        return answer
    if isinstance(answer, QuickProduceResponse):
        return ProduceResponse(answer.responses)
    out = bytearray()
    answer.encode(out, version)
    return response_class(key).decode(bytes(out), version, 0)


def error_codes(answer: Message | None) -> Iterator[int]:
    """Yield the error codes in a response, except NONE."""
    if answer is None:
        return
    for name in answer.FIELDS:
        value = getattr(answer, name)
        if name.endswith(ERROR_CODE):
            if value:
                yield value
        elif isinstance(value, list | tuple):
            for each in value:
                if isinstance(each, Message):
                    yield from error_codes(each)


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number as text if it is unknown."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# --- error responses

SAME: Final = {
    "partition_index": ("index", "partition"),
    "index": ("partition_index", "partition"),
    "topic": ("name",),
    "user": ("name",),
}
"""Field of a response -> names that it may have in the request."""
KINDS: Final = ("transaction", "coordinator", "group", "resource", "topic", "partition", "response")


def error_answer(key: int, request: Plain, code: int) -> Message:
    """Return a response that has `code` in all error fields, for every element of the request."""
    return _answer_about(response_class(key), request, code)


def _answer_about(kind: type[Message], request: Plain, code: int) -> Message:
    message = kind()
    hints = _hints(kind)
    for name in kind.FIELDS:
        element = _element_class(hints[name])
        if name.endswith(ERROR_CODE):
            message_value: Any = code
        elif element is not None:
            message_value = [_answer_about(element, each, code) for each in _elements_for(name, element, request)]
        else:
            message_value = _same_field(name, getattr(message, name), request)
        setattr(message, name, message_value)
    return message


def _hints(kind: type[Message]) -> dict[str, Any]:
    module = _source_of(kind.__module__)
    return get_type_hints(getattr(module, kind.__name__).__init__, vars(module))


@cache
def _source_of(name: str) -> ModuleType:
    """Return a module, or if it is compiled, its source as another module: compiled classes do not know the types of fields."""
    module = sys.modules.get(name) or import_module(name)
    path = module.__file__ or ""
    if path.endswith(".py"):
        return module
    # As name.cpython-311-x86_64-linux-gnu.so, with name.py beside it.
    folder, _, file = path.rpartition("/")
    spec = spec_from_file_location(f"{name}_source", f"{folder}/{file.partition('.')[0]}.py")
    assert spec is not None and spec.loader is not None
    source = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(source)
    return source


def _element_class(hint: Any) -> type[Message] | None:
    """Return the element class of a type hint for a list of structures, else None."""
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Sequence:
            (argument,) = get_args(each)
            if isinstance(argument, type) and issubclass(argument, Message):
                return argument
    return None


def _carries_errors(kind: type[Message]) -> bool:
    """Return whether a structure, or one nested in it, has an error code."""
    elements = (_element_class(hint) for hint in _hints(kind).values())
    return any(name.endswith(ERROR_CODE) for name in kind.FIELDS) or any(
        each is not None and _carries_errors(each) for each in elements
    )


def _elements_for(name: str, element: type[Message], request: Plain) -> list[Plain]:
    """Return the elements of the request that correspond to a list of the response."""
    if not _carries_errors(element):
        return []  # Lists such as brokers, endpoints and members do not depend on the request.
    lists = {key: value for key, value in request.items() if isinstance(value, list) and value}
    chosen = lists.get(name) or next(
        (value for kind in KINDS if kind in name for key, value in lists.items() if kind in key),
        [each for value in lists.values() for each in value],
    )
    first = next((field for field in element.FIELDS if not field.startswith("error_")), "")
    return [each if isinstance(each, dict) else {first: each} for each in chosen]


def _same_field(name: str, default: Any, request: Plain) -> Any:
    for alias in (name, *SAME.get(name, ())):
        value = request.get(alias)
        if value is not None and isinstance(value, type(default)):
            return value
        if isinstance(value, str) and isinstance(default, bytes) and len(value) == 2 * UUID_SIZE:
            return bytes.fromhex(value)
    return ZERO_UUID if default == ZERO_UUID else default
