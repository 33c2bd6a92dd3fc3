import type { ErrorResponse } from '../../gateway/call/error-response.ts'
import { statusLine } from './status-line.ts'

/** A complete error response as text, for a connection that closes after it. */
export const errorText = ({ status, headers, body }: ErrorResponse): string => {
  const date = new Date().toUTCString()
  const all = { ...headers, 'content-length': String(Buffer.byteLength(body)), date, connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${statusLine(status)}${lines.join('')}\r\n${body}`
}
