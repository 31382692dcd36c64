// A challenge's task: a small machine to run. The sidecar, or the agent, knows this kind.

export interface Task {
  id: string;
  input: { modulus: number; program: string[]; registers: number[] };
  instructions: string;
  kind: string;
}

const INSTRUCTIONS =
  'Input: a program for a machine with the registers a, b, c, d, whose first values are "registers". Run it ' +
  'from its first line until it has passed its last. x is a register, y a register or a number, k a number. ' +
  '"set x y": x becomes y. "add x y", "sub x y", "mul x y": x becomes x+y, x-y, x*y modulo "modulus", never ' +
  'negative. "jnz x k": unless x is 0, go on k lines from here (back if k is negative), otherwise with the next ' +
  'line. "jlt x y k": the same, if x is less than y. The answer text is the last values of a, b, c, d with ' +
  'commas, such as 5,0,71,8. The answer is the lowercase hex SHA-256 of the answer text.';

/** A number from low to high. */
const between = (low: number, high: number): number =>
  low + Math.floor((crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32) * (high - low + 1));

/** Draws a task, with its answer text. */
export function makeTask(): { task: Task; answer: string } {
  const modulus = between(20_000, 65_000);
  const registers = Array.from('abcd', () => between(0, modulus - 1));
  const values = [...registers];
  const program = Array.from({ length: between(12, 20) }, () => {
    const [op, x, y] = [['add', 'sub', 'mul'][between(0, 2)]!, between(0, 3), between(0, 3)];
    const [left, right] = [values[x]!, values[y]!];
    values[x] = (op === 'add' ? left + right : op === 'sub' ? left - right + modulus : left * right) % modulus;
    return `${op} ${'abcd'[x]} ${'abcd'[y]}`;
  });
  return {
    task: { id: 't1', input: { modulus, program, registers }, instructions: INSTRUCTIONS, kind: 'vm' },
    answer: values.join(','),
  };
}
