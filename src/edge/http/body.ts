import { isUtf8 } from 'node:buffer'
import type { Source } from '../../core/call.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/protocol.ts'
import { tooDear } from './dear.ts'
import type { Exchange } from './front.ts'

/** What a request's headers say against reading its body as JSON; null: nothing. */
export const bodyProblem = (headers: HeaderLookup, most: number): Failure | null => {
  const type = headers('content-type')
  const encoding = headers('content-encoding')
  const length = headers('content-length')
  // A few hundred bytes can unpack to a hundred million; nobody needs it for a prompt.
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    return fail('media_type', 'The body is compressed. Send it as it is, without Content-Encoding.')
  if (type !== undefined && type !== 'application/json' && !isJson(type))
    return fail('media_type', 'The Content-Type must be application/json (in UTF-8), or be left out.')
  if (length !== undefined && Number(length) > most) return tooLarge(most)
  return null
}

const isJson = (type: string): boolean => {
  const [media = '', ...parameters] = type.toLowerCase().split(';')
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith('charset='))
  const named = charset?.slice('charset='.length).replaceAll('"', '')
  return (
    /^application\/(?:[a-z0-9.-]+\+)?json$/.test(media.trim()) &&
    (named === undefined || named === 'utf-8' || named === 'utf8')
  )
}

const tooLarge = (most: number): Failure =>
  fail('body_too_large', `The body is larger than this gateway takes (${inUnits(most)}; limit.body, LIMIT_BODY).`)

const inUnits = (bytes: number): string =>
  bytes % 1_048_576 === 0 ? `${bytes / 1_048_576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`

/**
 * Reads a body to its end, counting as it comes; calls `done` once, or never if the client leaves first. `takes`: told of
 * each part before it is kept; whoever has no room for it says why.
 */
export const collect = (
  exchange: Exchange,
  most: number,
  takes: (bytes: number) => Failure | null,
  done: (body: Outcome<Source>) => void,
): void => {
  const parts: Buffer[] = []
  let size = 0
  const take = (part: Buffer) => {
    size += part.length
    const problem = size > most ? tooLarge(most) : takes(part.length)
    if (!problem) {
      parts.push(part)
      return
    }
    exchange.take(null)
    done(bad(problem))
  }
  const end = () => {
    const [first] = parts
    const whole = parts.length === 1 && first ? first : Buffer.concat(parts, size)
    if (!isUtf8(whole)) return done(bad(fail('invalid_json', 'The body is not valid UTF-8, as JSON must be.')))
    const bytes = withoutMark(whole)
    const text = bytes.toString('utf8')
    const problem = tooDear(text)
    done(problem ? bad(problem) : good({ text, bytes }))
  }
  exchange.take({ take, end })
}

/** Some Windows tools put a byte order mark before JSON (RFC 8259, section 8.1: parsers may ignore it). */
const withoutMark = (bytes: Buffer): Buffer =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
