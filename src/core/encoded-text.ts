import { SpooledBody } from './form.ts'

/**
 * A text, and its UTF-8 bytes if they are available. Text that is forwarded is written as these bytes, because encoding it
 * again costs more than decoding did.
 */
export type EncodedText = { readonly text: string; readonly bytes?: Uint8Array | undefined }

/** Text to send, as a string or as its UTF-8 bytes. */
export type TextOrBytes = string | Uint8Array

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()

/**
 * A text of which the longest part is bytes that were received: an edited body. They are copied into the buffer that is sent,
 * and only `head` and `tail` are encoded. The text and the bytes of the whole are made when they are first read.
 */
export class SplicedText implements EncodedText {
  readonly head: string
  /** UTF-8. */
  readonly kept: Uint8Array
  readonly tail: string
  readonly #keptText: string
  #bytes: Uint8Array | undefined

  constructor(head: string, kept: { readonly text: string; readonly bytes: Uint8Array }, tail: string) {
    this.head = head
    this.kept = kept.bytes
    this.tail = tail
    this.#keptText = kept.text
  }

  get text(): string {
    return this.head + this.#keptText + this.tail
  }

  get bytes(): Uint8Array {
    this.#bytes ??= this.#joined()
    return this.#bytes
  }

  /** UTF-16 units of the encoded parts and bytes of the other: at most the number of bytes, which is not known yet. */
  get length(): number {
    return this.head.length + this.kept.length + this.tail.length
  }

  #joined(): Uint8Array {
    const { head, kept, tail } = this
    const [before, after] = [encoder.encode(head), encoder.encode(tail)]
    const bytes = new Uint8Array(before.length + kept.length + after.length)
    bytes.set(before)
    bytes.set(kept, before.length)
    bytes.set(after, before.length + kept.length)
    return bytes
  }
}

/** A body in memory to send. */
export type WholeBody = TextOrBytes | SplicedText
/** A body to send. */
export type OutgoingBody = WholeBody | SpooledBody

/** The form in which a text is sent with the least work. */
export const outgoingBody = (body: EncodedText | Uint8Array | SpooledBody): OutgoingBody =>
  body instanceof SplicedText || body instanceof SpooledBody ? body : bytesOrText(body)

/** The body in one piece. Throws for one that is read while it is sent. */
export const wholeBody = (body: OutgoingBody): TextOrBytes => {
  if (body instanceof SpooledBody) throw new Error('a body that is not in memory was to be sent in one piece')
  return body instanceof SplicedText ? body.bytes : body
}

/** The bytes of a text if they are available, otherwise the text. Bytes are returned as they are. */
export const bytesOrText = (body: EncodedText | Uint8Array): TextOrBytes =>
  body instanceof Uint8Array ? body : (body.bytes ?? body.text)

export const textOf = (piece: TextOrBytes): string => (typeof piece === 'string' ? piece : decoder.decode(piece))
