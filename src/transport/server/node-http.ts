/**
 * `node:http` without an `import`. An import reads every export of the module; one of them is a getter, `WebSocket`,
 * that loads a second HTTP client: 25 of 100 ms of a start (Node 24.21).
 */
import type * as Http from 'node:http'

export const { createServer, IncomingMessage, STATUS_CODES } = process.getBuiltinModule('node:http')

/** Node's request. */
export type IncomingMessage = Http.IncomingMessage
/** Node's response. */
export type ServerResponse = Http.ServerResponse
