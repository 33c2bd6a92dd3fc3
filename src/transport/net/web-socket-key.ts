/** The keys of the opening handshake of a WebSocket (RFC 6455, section 1.3). */

/** Loaded with the first WebSocket. */
const crypto = () => process.getBuiltinModule('node:crypto')

/** A new `sec-websocket-key`. */
export const randomKey = (): string => crypto().randomBytes(16).toString('base64')

/** The `sec-websocket-accept` for a key. */
export const acceptOf = (key: string): string =>
  crypto().createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')

/** Whether this is a valid `sec-websocket-key`: 16 bytes in base64. */
export const isKey = (text: string | undefined): text is string =>
  text !== undefined && /^[+/0-9A-Za-z]{22}==$/.test(text)
