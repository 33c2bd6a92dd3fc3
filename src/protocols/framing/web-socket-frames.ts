/**
 * The frames of one direction of a WebSocket (RFC 6455, section 5), read as they pass: nothing is decoded, copied or changed. Extensions
 * are not negotiated, so a reserved bit is an error.
 */

/** Opcodes (RFC 6455, section 5.2). */
const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const
const OPCODES: ReadonlySet<number> = new Set(Object.values(OPCODE))

/** Codes of close frames (RFC 6455, section 7.4.1). */
export const CLOSE = { normal: 1000, away: 1001, protocol: 1002, policy: 1008, tooBig: 1009, internal: 1011 } as const
export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE]

/** Why the frames cannot be relayed, with the code to close with. */
export type FrameProblem = { readonly code: CloseCode; readonly why: string }

/** Receives the payload of messages in parts; `isEnd`: this one is the last of its message. */
export type MessageSink = { part(bytes: Uint8Array, isEnd: boolean): void }

/** The longest header: two bytes, a length of eight, a mask of four. */
const MAX_HEADER = 14
const MAX_CONTROL = 125

export class FrameReader {
  /** A close frame has been read completely: nothing may follow. */
  isClosed = false
  readonly #isMasked: boolean
  readonly #maxMessage: number
  /** Null: payloads are not read. */
  readonly #sink: MessageSink | null
  readonly #header = new Uint8Array(MAX_HEADER)
  #headerLength = 0
  #headerNeeds = 2
  /** Bytes of the current payload that have not been read. */
  #left = 0
  #opcode: number = OPCODE.text
  #isFinal = true
  /** A message has begun, and its last frame has not ended. */
  #isWithin = false
  #messageLength = 0

  /** `isMasked`: the frames are those of a client. `maxMessage`: bytes of a message. */
  constructor(isMasked: boolean, maxMessage: number, sink: MessageSink | null) {
    this.#isMasked = isMasked
    this.#maxMessage = maxMessage
    this.#sink = sink
  }

  /** Another message may be put in here: the last one and every frame are complete. */
  get isBetween(): boolean {
    return !this.#isWithin && this.#left === 0 && this.#headerLength === 0
  }

  /** Reads the next bytes. A problem is final: nothing more may be pushed. */
  push(bytes: Uint8Array): FrameProblem | null {
    let at = 0
    while (at < bytes.length) {
      if (this.isClosed) return { code: CLOSE.protocol, why: 'A frame follows the close frame.' }
      if (this.#left > 0) {
        const end = Math.min(bytes.length, at + this.#left)
        this.#left -= end - at
        this.#pay(bytes, at, end)
        at = end
        continue
      }
      this.#header[this.#headerLength++] = bytes[at++] ?? 0
      if (this.#headerLength === 2) this.#headerNeeds = this.#neededHeader()
      if (this.#headerLength < this.#headerNeeds) continue
      const problem = this.#begin()
      if (problem) return problem
      if (this.#left === 0) this.#pay(bytes, at, at)
    }
    return null
  }

  #neededHeader(): number {
    const second = this.#header[1] ?? 0
    const length = second & 0x7f
    return 2 + (length === 127 ? 8 : length === 126 ? 2 : 0) + (second & 0x80 ? 4 : 0)
  }

  /** Begins the frame of a complete header. */
  #begin(): FrameProblem | null {
    const [first = 0, second = 0] = this.#header
    const opcode = first & 0x0f
    const isFinal = (first & 0x80) !== 0
    const length = this.#length(second & 0x7f)
    this.#headerLength = 0
    this.#headerNeeds = 2
    if ((first & 0x70) !== 0) return wrong('a reserved bit is set')
    if (!OPCODES.has(opcode)) return wrong(`the opcode ${opcode} is not defined`)
    if (((second & 0x80) !== 0) !== this.#isMasked) return wrong(this.#isMasked ? 'it is not masked' : 'it is masked')
    this.#left = length
    this.#opcode = opcode
    if (opcode >= OPCODE.close) {
      if (!isFinal) return wrong('a control frame is fragmented')
      if (length > MAX_CONTROL) return wrong('a control frame is longer than 125 bytes')
      return opcode === OPCODE.close && length === 1 ? wrong('a close code has one byte') : null
    }
    if ((opcode === OPCODE.continuation) !== this.#isWithin) return wrong('the fragments of a message are out of order')
    if (!this.#isWithin) this.#messageLength = 0
    this.#messageLength += length
    if (this.#messageLength > this.#maxMessage)
      return { code: CLOSE.tooBig, why: `A message is larger than ${this.#maxMessage} bytes.` }
    this.#isFinal = isFinal
    this.#isWithin = true
    return null
  }

  /** Lengths from 2^32 on are above every limit, so their exact value does not matter. */
  #length(short: number): number {
    if (short < 126) return short
    const view = new DataView(this.#header.buffer)
    return short === 126 ? view.getUint16(2) : view.getUint32(2) * 2 ** 32 + view.getUint32(6)
  }

  #pay(bytes: Uint8Array, from: number, to: number): void {
    const isEnd = this.#left === 0
    if (this.#opcode >= OPCODE.close) {
      if (isEnd) this.isClosed = this.#opcode === OPCODE.close
      return
    }
    const isLast = isEnd && this.#isFinal
    if (isLast) this.#isWithin = false
    this.#sink?.part(bytes.subarray(from, to), isLast)
  }
}

const wrong = (what: string): FrameProblem => ({ code: CLOSE.protocol, why: `A frame is not valid: ${what}.` })

const encoder = new TextEncoder()

/** The longest length that the second byte states itself. */
const MAX_SHORT = 125

/** A text message in one frame of a server, of at most 65,535 bytes. */
export const textFrame = (text: string): Uint8Array => {
  const payload = encoder.encode(text)
  const { length } = payload
  const isShort = length <= MAX_SHORT
  const header = isShort ? [0x81, length] : [0x81, 126, length >> 8, length & 0xff]
  return Uint8Array.of(...header, ...payload)
}

/** Bytes of the reason of a close frame. */
const MAX_REASON = MAX_CONTROL - 2

/** A close frame; with the four bytes of a mask it is one of a client. `reason`: ASCII. */
export const closeFrame = (code: CloseCode, reason: string, mask: readonly number[] = []): Uint8Array => {
  const payload = Uint8Array.of(code >> 8, code & 0xff, ...encoder.encode(reason).subarray(0, MAX_REASON))
  const length = payload.length | (mask.length > 0 ? 0x80 : 0)
  return Uint8Array.of(0x88, length, ...mask, ...payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0)))
}
