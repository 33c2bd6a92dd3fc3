/**
 * `node:http`, asked for and not imported. An import of a module of Node's reads all that it exports, and of this one that
 * is `WebSocket` too, behind whose getter stands a whole second HTTP client: 25 ms of a start of 100, for a name nobody
 * uses (Node 24.21).
 */
import type * as Http from 'node:http'

export const { createServer, IncomingMessage, STATUS_CODES } = process.getBuiltinModule('node:http')

export type IncomingMessage = Http.IncomingMessage
export type ServerResponse = Http.ServerResponse
