"""Answers to requests: futures that get a result or an error once, whoever comes first."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from typing import Any

Outputs = dict[str, Any]


def failed(error: BaseException) -> Future[Outputs]:
    future: Future[Outputs] = Future()
    future.set_running_or_notify_cancel()
    future.set_exception(error)
    return future


def error_of(future: Future[Outputs]) -> BaseException:
    error = future.exception()
    assert error is not None
    return error


def settle(future: Future[Outputs], outputs: Outputs | None, error: BaseException | None) -> None:
    """Give a future its result, unless it has one: a request that is late by then, or cancelled."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(outputs or {})
    except InvalidStateError:
        pass


def starts(future: Future[Outputs]) -> bool:
    """Whether a request that waited may start: it was not cancelled, and its time is not over."""
    try:
        return not future.done() and future.set_running_or_notify_cancel()
    except InvalidStateError:  # its time was over just now
        return False
