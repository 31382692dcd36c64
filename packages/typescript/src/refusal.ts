/** Why evidence was refused. The code is one of docs/errors.md; the sentence is for the API's own log. */
export class Refusal extends Error {
  constructor(readonly code: string, sentence: string) {
    super(sentence);
  }
}

export function refuse(code: string, sentence: string): never {
  throw new Refusal(code, sentence);
}

/** Refuses if a condition holds. */
export function refuseIf(condition: unknown, code: string, sentence: string): void {
  if (condition) refuse(code, sentence);
}

/** The code of anything thrown: what is no Refusal is a fault here, not in the evidence. */
export const codeOf = (error: unknown): string => (error instanceof Refusal ? error.code : 'internal');

/** What a reader returns, or nothing if it refuses. */
export async function unlessRefused<T>(read: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}
