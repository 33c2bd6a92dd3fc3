import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'
import { type Failure, fail } from '../../core/failure.ts'

/** Receives decoded bytes. `bytes` returns false to request a pause. */
export type DecodedSink = {
  bytes(chunk: Uint8Array): boolean
  end(): void
  failed(failure: Failure): void
}

/** Decodes a content encoding incrementally. */
export type Inflater = {
  /** Returns false if its buffer is full; `onDrain` is called later. */
  push(chunk: Uint8Array): boolean
  end(): void
  /** Continues after the sink has requested a pause. */
  resume(): void
  stop(): void
}

const DECODERS = {
  gzip: () => createGunzip({ flush: constants.Z_SYNC_FLUSH }),
  'x-gzip': () => createGunzip({ flush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ flush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ flush: constants.ZSTD_e_flush }),
} as const

type Engine = ReturnType<typeof createGunzip | typeof createBrotliDecompress | typeof createZstdDecompress>

/** `deflate` is the zlib format, but some servers send raw deflate; the first byte differs (RFC 9110, 8.4.1.2). */
const decoderFor = (encoding: string, first: number): (() => Engine) | undefined => {
  if (encoding === 'deflate') return (first & 0x0f) === 8 ? () => createInflate() : () => createInflateRaw()
  return Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding as keyof typeof DECODERS] : undefined
}

/** The encoding that a `content-encoding` header names. Combined and unsupported encodings are `unknown`. */
export const encodingOf = (header: string | undefined): 'none' | 'unknown' | { readonly name: string } => {
  const name = (header ?? '').trim().toLowerCase()
  if (name === '' || name === 'identity') return 'none'
  return name === 'deflate' || Object.hasOwn(DECODERS, name) ? { name } : 'unknown'
}

/** A larger output with a higher ratio is a decompression bomb: text compresses about ten times, deflate up to a thousand. */
const BOMB = { bytes: 4 * 1024 * 1024, ratio: 200 }

/**
 * Decodes one encoding and flushes after each chunk, so that compressed streams are not delayed. Fails above `most` decoded
 * bytes: a few hundred bytes of brotli can expand to a hundred million.
 */
export const inflater = (encoding: string, most: number, to: DecodedSink, onDrain: () => void): Inflater => {
  let engine: Engine | undefined
  let total = 0
  let stopped = false
  const stop = () => {
    stopped = true
    engine?.destroy()
  }
  const failWith = (failure: Failure) => {
    if (stopped) return
    stop()
    to.failed(failure)
  }
  const start = (first: number): Engine | undefined => {
    const decoder = decoderFor(encoding, first)?.()
    if (!decoder) return undefined
    decoder.on('data', (chunk: Uint8Array) => {
      if (stopped) return
      total += chunk.length
      const bomb = total > BOMB.bytes && total > BOMB.ratio * decoder.bytesWritten
      if (bomb || total > most)
        failWith(fail('malformed', `The compressed body decodes to more than ${bomb ? total : most} bytes.`))
      else if (!to.bytes(chunk) && !stopped) decoder.pause()
    })
    decoder.on('end', () => {
      if (stopped) return
      stopped = true
      to.end()
    })
    decoder.on('drain', () => {
      if (!stopped) onDrain()
    })
    decoder.on('error', (error: NodeJS.ErrnoException) =>
      failWith(
        error.code === 'Z_BUF_ERROR'
          ? fail('truncated', 'The compressed body is incomplete.')
          : fail('malformed', `The body does not match its content-encoding (${error.code ?? 'unknown'}).`),
      ),
    )
    return decoder
  }
  return {
    push(chunk) {
      if (stopped || chunk.length === 0) return true
      engine ??= start(chunk[0] ?? 0)
      // A copy: zlib works on another thread while the caller reuses its buffer.
      return engine?.write(new Uint8Array(chunk)) ?? true
    },
    end() {
      if (stopped) return
      if (engine) engine.end()
      else {
        stopped = true
        to.end()
      }
    },
    resume() {
      if (!stopped) engine?.resume()
    },
    stop,
  }
}
