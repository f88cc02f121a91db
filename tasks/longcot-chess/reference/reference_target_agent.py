"""Answer the chess questions without a model: local search over knight routes, a shallow search for lines."""

from __future__ import annotations

import argparse
import json
import re
from collections import deque
from itertools import pairwise
from pathlib import Path

import chess

BOARD = 100
DEPTH = 2
VALUES = {1: 100, 2: 320, 3: 330, 4: 500, 5: 900, 6: 0}
JUMPS = [(a, b) for a in (-2, -1, 1, 2) for b in (-2, -1, 1, 2) if abs(a) != abs(b)]


def distances(start: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Knight moves from start to every square, breadth first."""
    found, queue = {start: 0}, deque([start])
    while queue:
        x, y = queue.popleft()
        for a, b in JUMPS:
            square = (x + a, y + b)
            if min(square) >= 0 and max(square) < BOARD and square not in found:
                found[square] = found[x, y] + 1
                queue.append(square)
    return found


def length(route: list[int], far: list[list[int]]) -> int:
    return sum(far[a][b] for a, b in pairwise(route))


def improve(route: list[int], far: list[list[int]]) -> list[int]:
    """Reverse or move a stretch while that shortens the route; the start stays first."""
    best, better = length(route, far), True
    while better:
        better = False
        for i in range(1, len(route)):
            for j in range(i + 1, len(route) + 1):
                rest, stretch = route[:i] + route[j:], route[i:j]
                tries = [route[:i] + stretch[::-1] + route[j:]]
                if j - i <= 3:
                    for k in range(1, len(rest) + 1):
                        tries += [rest[:k] + s + rest[k:] for s in (stretch, stretch[::-1])]
                shortest = min(tries, key=lambda r: length(r, far))
                if length(shortest, far) < best:
                    route, best, better = shortest, length(shortest, far), True
    return route


def knight_path(prompt: str) -> int:
    squares = [(int(a), int(b)) for a, b in re.findall(r"\((\d+), *(\d+)\)", prompt)]
    tables = [distances(square) for square in squares]
    far = [[table[square] for square in squares] for table in tables]
    lengths = []
    for second in range(1, len(squares)):
        route, left = [0, second], set(range(1, len(squares))) - {second}
        while left:
            route.append(min(left, key=lambda n: (far[route[-1]][n], n)))
            left.remove(route[-1])
        if second % 5 == 1:
            lengths.append(length(improve(route, far), far))
    return min(lengths)


def search(board: chess.Board, depth: int, low: float, high: float) -> tuple[float, list[chess.Move]]:
    """Negamax with alpha-beta over material and pawn advance; the score is the mover's."""
    if board.is_checkmate():
        return -100000 - depth, []
    if depth == 0 or board.is_stalemate():
        score = 0
        for square, piece in board.piece_map().items():
            rank = chess.square_rank(square) if piece.color else 7 - chess.square_rank(square)
            worth = VALUES[piece.piece_type] + (rank * rank * 3 if piece.piece_type == chess.PAWN else 0)
            score += worth if piece.color == board.turn else -worth
        return score, []
    line: list[chess.Move] = []
    for move in sorted(board.legal_moves, key=lambda m: (not board.is_capture(m), m.uci())):
        board.push(move)
        score, reply = search(board, depth - 1, -high, -low)
        board.pop()
        if not line or -score > low:
            low, line = max(low, -score), [move, *reply]
        if low >= high:
            break
    return low, line


def best_3_moves(prompt: str) -> list[str]:
    board = chess.Board(prompt.split("FEN: ")[1].split("\n")[0].strip())
    moves: list[str] = []
    while len(moves) < 3 and not board.is_game_over():
        line = search(board, DEPTH, -1e9, 1e9)[1]
        moves.append(board.san(line[0]))
        board.push(line[0])
    return moves


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset_dir", type=Path, required=True)
    parser.add_argument("--working_dir", type=Path, required=True)
    args = parser.parse_args()
    rows = []
    for question in json.loads((args.dataset_dir / "chess_hard.json").read_text(encoding="utf-8")):
        solve = knight_path if question["problem"]["template"] == "knight_path" else best_3_moves
        rows.append({"question_id": question["question_id"], "solution": solve(question["prompt"])})
        (args.working_dir / "responses.json").write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
