"""What runs on a core of its own runs as it would here."""

import threading

import pytest
import torch

from orthoscope.linalg.parallel import balanced_over_cores, on_cores


@pytest.fixture(autouse=True)
def two_cores() -> object:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def test_results_come_in_the_order_of_the_tasks() -> None:
    assert on_cores(lambda task: task**2, range(9)) == [task**2 for task in range(9)]
    assert balanced_over_cores(lambda task: -task, [1, 2, 3, 4], [1 << 30, 1 << 31, 1 << 30, 1 << 31]) == [
        -1,
        -2,
        -3,
        -4,
    ]


def modes(_: int) -> tuple[bool, bool, int]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_num_threads()


def test_gradients_and_inference_mode_are_those_of_the_caller() -> None:
    assert set(on_cores(modes, range(4))) == {(True, False, 1)}
    with torch.no_grad():
        assert set(on_cores(modes, range(4))) == {(False, False, 1)}
    with torch.inference_mode():
        assert set(on_cores(modes, range(4))) == {(False, True, 1)}
        place = torch.zeros(4)
        on_cores(lambda task: place[task].add_(task), range(4))
    assert place.tolist() == [0, 1, 2, 3]
    assert set(on_cores(modes, range(4))) == {(True, False, 1)}


def test_threads_to_come_have_the_default_back() -> None:
    """All workers have started when a call returns: one that started later would lower it again."""
    on_cores(modes, [0])
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]
    assert {modes(0)[2] for _ in range(3)} == {2}


def test_an_error_of_a_task_is_the_caller_s() -> None:
    with pytest.raises(ZeroDivisionError):
        on_cores(lambda task: 1 // task, range(3))
    assert torch.get_num_threads() == 2
