import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'
import { type Failure, fail } from '../../core/failure.ts'

/** Where decoded bytes go. `bytes` answers false when the far side is full. */
export type Decoded = {
  bytes(chunk: Uint8Array): boolean
  end(): void
  failed(failure: Failure): void
}

/** Undoes a content encoding as the bytes arrive. */
export type Inflater = {
  /** False: enough for now, `roomAgain` will be called. */
  push(chunk: Uint8Array): boolean
  end(): void
  /** The far side has room again. */
  resume(): void
  stop(): void
}

const MAKERS = {
  gzip: () => createGunzip({ flush: constants.Z_SYNC_FLUSH }),
  'x-gzip': () => createGunzip({ flush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ flush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ flush: constants.ZSTD_e_flush }),
} as const

type Engine = ReturnType<typeof createGunzip | typeof createBrotliDecompress | typeof createZstdDecompress>

/** `deflate` is zlib's format by the standard and bare by some servers' custom; the first byte tells (RFC 9110, 8.4.1.2). */
const makerFor = (encoding: string, first: number): (() => Engine) | undefined => {
  if (encoding === 'deflate') return (first & 0x0f) === 8 ? () => createInflate() : () => createInflateRaw()
  return Object.hasOwn(MAKERS, encoding) ? MAKERS[encoding as keyof typeof MAKERS] : undefined
}

/** What a `content-encoding` header asks: nothing to undo, one known encoding, or something we do not take. */
export const encodingOf = (header: string | undefined): 'none' | 'unknown' | { readonly name: string } => {
  const name = (header ?? '').trim().toLowerCase()
  if (name === '' || name === 'identity') return 'none'
  return name === 'deflate' || Object.hasOwn(MAKERS, name) ? { name } : 'unknown'
}

/**
 * Beyond so many bytes nothing anybody wrote is this much larger than it came: text is ten times as large, deflate can
 * do a thousand. Found here it is no answer at all; found later it would be one that is merely too long for us.
 */
const SUSPICIOUS = { bytes: 4 * 1024 * 1024, times: 200 }

/**
 * Decodes one encoding, giving out what each chunk brought at once, so that a compressed stream still flows. More than
 * `most` decoded bytes is a bomb: a few hundred bytes of brotli can hold a hundred million.
 */
export const inflater = (encoding: string, most: number, to: Decoded, roomAgain: () => void): Inflater => {
  let engine: Engine | undefined
  let total = 0
  let stopped = false
  const stop = () => {
    stopped = true
    engine?.destroy()
  }
  const broken = (failure: Failure) => {
    if (stopped) return
    stop()
    to.failed(failure)
  }
  const start = (first: number): Engine | undefined => {
    const made = makerFor(encoding, first)?.()
    if (!made) return undefined
    made.on('data', (chunk: Uint8Array) => {
      if (stopped) return
      total += chunk.length
      const bomb = total > SUSPICIOUS.bytes && total > SUSPICIOUS.times * made.bytesWritten
      if (bomb || total > most)
        broken(fail('malformed', `The compressed answer holds more than ${bomb ? total : most} bytes.`))
      else if (!to.bytes(chunk) && !stopped) made.pause()
    })
    made.on('end', () => {
      if (stopped) return
      stopped = true
      to.end()
    })
    made.on('drain', () => {
      if (!stopped) roomAgain()
    })
    made.on('error', (error: NodeJS.ErrnoException) =>
      broken(
        error.code === 'Z_BUF_ERROR'
          ? fail('truncated', 'The compressed answer ended before its end.')
          : fail('malformed', `The answer is not what its content-encoding says (${error.code ?? 'unknown'}).`),
      ),
    )
    return made
  }
  return {
    push(chunk) {
      if (stopped || chunk.length === 0) return true
      engine ??= start(chunk[0] ?? 0)
      // A copy: the engine works on another thread, when the caller's buffer may be in use again.
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
