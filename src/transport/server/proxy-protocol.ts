/**
 * The head that a proxy puts before a connection to state its client: PROXY protocol, versions 1 and 2
 * (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt). No I/O.
 */
import { isIP, SocketAddress } from 'node:net'

/** Bytes: a head of version 2 with 520 bytes of addresses and TLVs. One of version 1 has at most 107. */
export const MAX_PROXY_HEAD = 536
const MAX_LINE = 107

/** `client`: null: the proxy speaks for itself, or does not know its client. `length`: bytes before those of the client. */
export type ProxyHead =
  | { readonly is: 'partial' }
  | { readonly is: 'invalid' }
  | { readonly is: 'complete'; readonly length: number; readonly client: string | null }

const PARTIAL: ProxyHead = { is: 'partial' }
const INVALID: ProxyHead = { is: 'invalid' }

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const LINE_START = Buffer.from('PROXY ', 'latin1')
/** Bytes of version 2 before its addresses. */
const FIXED = 16

/** Reads the beginning of a connection. */
export const readProxyHead = (bytes: Buffer): ProxyHead => {
  if (begins(bytes, SIGNATURE)) return bytes.length < FIXED ? PARTIAL : readBinary(bytes)
  return begins(bytes, LINE_START) ? readLine(bytes) : INVALID
}

const begins = (bytes: Buffer, wanted: Buffer): boolean => {
  const length = Math.min(bytes.length, wanted.length)
  return bytes.compare(wanted, 0, length, 0, length) === 0
}

// ── Version 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────

const readLine = (bytes: Buffer): ProxyHead => {
  const text = bytes.toString('latin1', 0, MAX_LINE)
  const end = text.indexOf('\r\n')
  if (end === -1) return bytes.length >= MAX_LINE ? INVALID : PARTIAL
  const [, family, client = '', destination = '', ...ports] = text.slice(0, end).split(' ')
  const length = end + 2
  // The rest of the line is to be ignored.
  if (family === 'UNKNOWN') return { is: 'complete', length, client: null }
  const version = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : null
  const isValid = isIP(client) === version && isIP(destination) === version && ports.length === 2 && ports.every(isPort)
  return isValid && !client.includes('%') ? { is: 'complete', length, client } : INVALID
}

const isPort = (text: string): boolean => /^(?:0|[1-9][0-9]{0,4})$/.test(text) && Number(text) <= 65_535

// ── Version 2 ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Version and command, in one byte. */
const COMMANDS = { local: 0x20, proxy: 0x21 }
/** Family and transport, in one byte, with the bytes of both addresses and ports. */
const FAMILIES = { unspecified: 0x00, tcp4: 0x11, tcp6: 0x21, unix: 0x31 }

/** TLVs after the addresses are skipped. */
const readBinary = (bytes: Buffer): ProxyHead => {
  const [command, family] = [bytes[12], bytes[13]]
  const size = bytes.readUInt16BE(14)
  const length = FIXED + size
  if (length > MAX_PROXY_HEAD || (command !== COMMANDS.local && command !== COMMANDS.proxy)) return INVALID
  if (bytes.length < length) return PARTIAL
  const keepsPeer = { is: 'complete', length, client: null } as const
  if (command === COMMANDS.local) return keepsPeer
  switch (family) {
    case FAMILIES.unspecified:
      return keepsPeer
    case FAMILIES.unix:
      return size < 216 ? INVALID : keepsPeer
    case FAMILIES.tcp4:
      return size < 12 ? INVALID : { ...keepsPeer, client: bytes.subarray(16, 20).join('.') }
    case FAMILIES.tcp6:
      return size < 36 ? INVALID : { ...keepsPeer, client: ipv6Text(bytes.subarray(16, 32)) }
    default:
      return INVALID
  }
}

const ipv6Text = (bytes: Buffer): string => {
  const address = (bytes.toString('hex').match(/.{4}/g) ?? []).join(':')
  return new SocketAddress({ address, family: 'ipv6' }).address
}
