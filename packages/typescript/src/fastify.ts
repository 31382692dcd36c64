// The adapter for Fastify 5. It is apart because it needs Node's streams.
import { Readable } from 'node:stream';
import { type NodeRequest, type NodeResponse, type Protect, judgeNode, refusalOf } from './adapters.js';
import type { Gate, Verdict } from './gate.js';

/** The parts of Fastify that are used here. */
interface FastifyRequest { raw: NodeRequest; actionproof?: Verdict }
interface FastifyReply {
  raw: NodeResponse;
  code(status: number): FastifyReply;
  headers(values: Record<string, string>): FastifyReply;
  send(body: string): unknown;
}

/**
 * A preParsing hook for a route of Fastify 5, which runs before parsers: request.actionproof is the verdict, and the
 * parsers get the verified bytes.
 */
export function fastify(gate: Gate, p: Protect) {
  return async (request: FastifyRequest, reply: FastifyReply, payload: AsyncIterable<Uint8Array>) => {
    const { verdict, pass, rawBody } = await judgeNode(gate, p, request.raw, reply.raw, payload);
    if (!pass) {
      const { status, headers, body } = refusalOf(verdict);
      return reply.code(status).headers(headers).send(body);
    }
    request.actionproof = verdict;
    return Object.assign(Readable.from([rawBody], { objectMode: false }), { receivedEncodedLength: rawBody.length });
  };
}
