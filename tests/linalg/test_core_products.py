"""Products by one core a part are the plain ones, whether they are worth it or not."""

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import core_products
from orthoscope.linalg.core_products import Cores, cores_for


@pytest.fixture(autouse=True)
def two_cores() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each product was made of."""
    counts: list[int] = []
    on_cores = core_products.on_cores

    def counted(function: object, tasks: list[object], threads: int) -> list[object]:
        counts.append(len(tasks))
        return on_cores(function, tasks, threads)  # type: ignore[arg-type]

    monkeypatch.setattr(core_products, "on_cores", counted)
    return counts


def gaussian(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("rows", "size", "strips"), [(1025, 1025, 9), (1300, 1024, 8), (300, 200, 0)])
def test_products_are_the_plain_ones(rows: int, size: int, strips: int, dtype: torch.dtype, parts: list[int]) -> None:
    frame, square = gaussian(rows, size, dtype=dtype) / 32, gaussian(size, size, dtype=dtype) / 32
    target = frame.clone()
    with cores_for(frame) as cores:
        gram, turned = cores.gram(frame), cores.product(frame, square)
        assert cores.add_product_(target, frame, square).data_ptr() == target.data_ptr()
    torch.testing.assert_close(gram, frame.mT @ frame)
    torch.testing.assert_close(turned, frame @ square)
    torch.testing.assert_close(target, frame + frame @ square)
    assert parts == ([strips, 2, 2] if strips else [])
    if strips:
        assert torch.equal(gram.tril(-128), gram.triu(128).mT)


@pytest.mark.parametrize("count", [1, 2])
def test_copies_are_of_their_own_memory_layout_and_type(count: int) -> None:
    for matrix in (gaussian(65, 40, dtype=torch.float32), gaussian(40, 65, dtype=torch.float32).mT):
        for dtype in (None, torch.float64):
            copy = Cores(count).copied(matrix, dtype)
            assert torch.equal(copy, matrix.to(copy.dtype))
            assert copy.dtype == (dtype or torch.float32)
            assert copy.stride() == matrix.stride()
            assert copy.data_ptr() != matrix.data_ptr()


@pytest.mark.parametrize("count", [1, 2])
def test_tasks_are_done_in_order(count: int) -> None:
    results = Cores(count).each(lambda task: torch.tensor(task**2), range(5), cost=1 << 25)
    assert [int(result) for result in results] == [0, 1, 4, 9, 16]


def test_this_thread_stays_on_one_core_and_gets_its_own_back() -> None:
    frame = gaussian(1024, 1024, dtype=torch.float32)
    with cores_for(frame) as cores:
        assert (cores.count, torch.get_num_threads()) == (2, 1)
        cores.product(frame, frame)
        assert torch.get_num_threads() == 1, "also after workers have started"
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert seen == [2], "a thread that starts meanwhile"
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), cores_for(frame) as cores:
        cores.each(lambda task: torch.tensor(1 // task), [0], cost=1)
    assert torch.get_num_threads() == 2


def test_one_thread_and_many_share_all_cores() -> None:
    frame = gaussian(1024, 1024, dtype=torch.float32)
    for threads in (1, 4):
        torch.set_num_threads(threads)
        with cores_for(frame) as cores:
            assert (cores.count, torch.get_num_threads()) == (1, threads)
