"""The coordinator's side of the worker processes: one loop over their sockets and the guard's, no threads."""

from __future__ import annotations

import os
import platform
import selectors
import shutil
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, Any

from bohb.core.events import outcome_from_json, trial_to_json
from bohb.core.trial import Outcome, Trial, with_times
from bohb.executors.base import Done, Lost, Objective
from bohb.executors.local import logs, processes
from bohb.executors.local.curve import extend
from bohb.executors.local.deaths import Death, verdict
from bohb.executors.local.guard import GRACE
from bohb.executors.local.handle import Hand
from bohb.executors.local.launch import GuardProcess, launch
from bohb.executors.local.setup import Setup
from bohb.executors.local.wire import Lines, encode

KILL_SECONDS = 1.5  # for the guard to kill everything and end
_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class Crew:
    """The workers of one executor: started when needed, replaced when dead.

    payload: the pickled objective; None to fork from this process.
    """

    def __init__(
        self,
        setup: Setup,
        objective: Objective,
        payload: IO[bytes] | None,
        slot_env: Callable[[int], Mapping[str, str]] | None,
    ) -> None:
        self._setup, self._objective, self._payload, self._slot_env = setup, objective, payload, slot_env
        self.done: list[Done] = []
        self._queue: deque[Trial] = deque()
        self._running = 0
        self._selector = selectors.DefaultSelector()
        self._guard: GuardProcess | None = None
        self._guard_lines = Lines()
        self._slots: list[Hand | None] = [None] * setup.slots
        self._idle: list[Hand] = []
        self._hands: dict[int, Hand] = {}  # all whose end has not been reported, by id
        self._started = 0
        self._machine = platform.node()
        self.closed = False

    @property
    def slots(self) -> int:
        """How many trials may run at once."""
        return self._setup.slots

    @property
    def busy(self) -> bool:
        """Whether a trial runs or waits for a worker."""
        return bool(self._running or self._queue)

    def submit(self, trial: Trial) -> None:
        """Hand a trial to a free worker, or start one for it."""
        self._queue.append(trial)
        self._fill()

    def poll(self, seconds: float | None) -> None:
        """Wait for something to happen, and deal with it; `done` grows."""
        for key, events in self._selector.select(seconds):
            hand: Hand | None = key.data
            if hand is None:
                self._hear_guard()
            elif hand.link.fileno() >= 0:  # it may have been closed by an earlier event of this round
                if events & _WRITE:
                    self._flush(hand)
                if events & _READ:
                    self._hear(hand)
        self._fill()

    def drain(self) -> None:
        """Let all trials finish, then send everybody home."""
        while self.busy:
            self.poll(None)
        for hand in self._hands.values():
            self._close_link(hand)
        self._order({"do": "drain"})
        self._close(GRACE + KILL_SECONDS)

    def kill(self) -> None:
        """Stop everything at once; running trials are forgotten."""
        if os.getpid() != self._setup.parent:
            return  # a process forked from the coordinator, which ends with a copy of us
        self._order({"do": "quit"})
        self._close(KILL_SECONDS)

    def _close(self, seconds: float) -> None:
        if self.closed:
            return
        self.closed = True
        for hand in self._hands.values():
            self._close_link(hand)
        self._hands.clear()
        self._queue.clear()
        self._running = 0
        if self._guard is not None:
            self._guard.stop(seconds)
        self._selector.close()
        if self._payload is not None:
            self._payload.close()
        if not self._setup.keep_logs:
            shutil.rmtree(self._setup.log_dir, ignore_errors=True)

    def _fill(self) -> None:
        """Give waiting trials to idle workers, or to new ones as far as there are slots.

        A new worker gets its trial at once and finds it in its socket when it is ready: nobody has to call `wait` for
        a trial to start. If it cannot start, that trial has failed, so that nothing is tried for ever.
        """
        while self._queue:
            if not self._idle:
                if None not in self._slots:
                    return
                self._idle.append(self._start(self._slots.index(None)))
            self._give(self._idle.pop(), self._queue.popleft())

    def _start(self, slot: int) -> Hand:
        if self._guard is None:
            self._guard = launch(self._setup, self._objective, self._payload)
            self._guard_lines = Lines()
            self._selector.register(self._guard.link, _READ, None)
        environment = dict(self._slot_env(slot)) if self._slot_env is not None else {}
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._started += 1
        hand = Hand(self._started, slot, ours)
        self._hands[hand.id] = self._slots[slot] = hand
        self._selector.register(ours, _READ, hand)
        with theirs:
            self._order({"do": "start", "id": hand.id, "slot": slot, "env": environment}, theirs.fileno())
        return hand

    def _order(self, body: dict[str, Any], *descriptors: int) -> None:
        if self._guard is None:
            return
        try:
            socket.send_fds(self._guard.link, [encode(body)], list(descriptors))
        except OSError:
            pass  # it is dead; the loop will read that from its socket

    def _give(self, hand: Hand, trial: Trial) -> None:
        hand.trial, hand.curve, hand.began = trial, [], (time.time(), time.monotonic())
        self._running += 1
        hand.unsent = encode(trial_to_json(trial))
        self._flush(hand)

    def _flush(self, hand: Hand) -> None:
        """Send what the socket takes; the rest when it takes more, for a coordinator must never block."""
        try:
            hand.unsent = hand.unsent[hand.link.send(hand.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            hand.unsent = b""  # it is dying; the guard will say of what
        wanted = _READ | _WRITE if hand.unsent else _READ
        if self._selector.get_key(hand.link).events != wanted:
            self._selector.modify(hand.link, wanted, hand)

    def _hear(self, hand: Hand) -> bool:
        """Read what a worker has sent; whether there may be more."""
        try:
            data = hand.link.recv(2**18)
        except BlockingIOError:
            return False
        except OSError:  # ECONNRESET: killed with our bytes unread
            data = b""
        try:
            for body in hand.lines.feed(data):
                self._take(hand, body)
        except (ValueError, TypeError, KeyError):  # not what our worker writes: something else got hold of its socket
            data = b""
        if not data:
            self._close_link(hand)
            if self._slots[hand.slot] is hand:
                self._order({"do": "closed", "id": hand.id})
        return bool(data)

    def _take(self, hand: Hand, body: dict[str, Any]) -> None:
        if "points" in body:
            extend(hand.curve, ((float(step), float(loss)) for step, loss in body["points"]))
        if "outcome" in body:
            if hand.trial is None or body["number"] != hand.trial.number:
                raise ValueError(f"an outcome of trial {body['number']}, which does not run here")
            self._finish(hand, outcome_from_json(body["outcome"]))
            if body["retire"]:
                self._slots[hand.slot] = None
            else:
                self._idle.append(hand)
        elif "ready" in body:
            hand.pid, hand.began = int(body["ready"]), (float(body["time"]), float(body["clock"]))
        elif "failed" in body:
            self._slots[hand.slot] = None
            self._finish(hand, _stamped(hand, outcome_from_json(body["failed"])))

    def _finish(self, hand: Hand, result: Outcome | Lost) -> None:
        """A trial has come back."""
        trial = hand.trial
        assert trial is not None
        hand.trial = None
        self._running -= 1
        if isinstance(result, Outcome):
            curve = tuple(hand.curve) or result.curve
            result = replace(result, curve=curve, worker=f"{self._machine}/{hand.slot}")
        self.done.append(Done(trial, result))

    def _hear_guard(self) -> None:
        assert self._guard is not None
        try:
            data = self._guard.link.recv(2**16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for body in self._guard_lines.feed(data):
            self._bury(Death.of(body))
        if not data:
            self._lose_guard()

    def _bury(self, death: Death) -> None:
        """A worker has ended: its last words count first, then how it died."""
        hand = self._leave(death.id)
        if hand.trial is not None:
            started = hand.pid is not None
            result = verdict(death, hand.slot, self._setup, started)
            if isinstance(result, Outcome):
                log = logs.trial_log(self._setup, hand.slot, hand.trial.number)
                output = logs.tail(log if started else logs.worker_log(self._setup, hand.slot))
                result = _stamped(hand, replace(result, output=output))
                logs.finish(log, self._setup)
            self._finish(hand, result)
        self._vacate(hand)

    def _lose_guard(self) -> None:
        """The guard itself was killed, and its workers with it: what ran is lost; the next start makes a new one."""
        guard, self._guard = self._guard, None
        assert guard is not None
        self._selector.unregister(guard.link)
        guard.stop(KILL_SECONDS)
        reason = f"the guard process (pid {guard.pid}) of the workers has died"
        for hand in [self._leave(worker) for worker in list(self._hands)]:
            if hand.pid is not None:
                processes.kill_tree(hand.pid)
            if hand.trial is not None:
                self._finish(hand, Lost(reason))
            self._vacate(hand)
        processes.kill_marked(self._setup.token)

    def _leave(self, worker: int) -> Hand:
        hand = self._hands.pop(worker)
        while hand.link.fileno() >= 0 and self._hear(hand):
            pass
        self._close_link(hand)
        return hand

    def _vacate(self, hand: Hand) -> None:
        if self._slots[hand.slot] is hand:
            self._slots[hand.slot] = None

    def _close_link(self, hand: Hand) -> None:
        if hand.link.fileno() >= 0:
            self._selector.unregister(hand.link)
            hand.link.close()
        if hand in self._idle:
            self._idle.remove(hand)


def _stamped(hand: Hand, outcome: Outcome) -> Outcome:
    """The outcome of a trial that ended just now, by the monotonic clock."""
    wall, clock = hand.began
    return with_times(outcome, wall, wall + time.monotonic() - clock)
