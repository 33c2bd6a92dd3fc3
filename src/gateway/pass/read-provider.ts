/** Reads from a provider's own API for the gateway itself: batches and their results. */
import { type Failure, fail } from '../../core/failure.ts'
import { joinedBytes } from '../../core/joined-bytes.ts'
import type { Instance } from '../../core/provider.ts'
import type { Sink } from '../../core/stage.ts'
import { passAddress } from '../../policy/pass/address.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { identityOf, providerHeaders } from '../upstream/outbound-request.ts'
import { redactKey } from '../upstream/redact.ts'
import { AnswerUsage } from './answer-usage.ts'
import { keysFor } from './call-provider.ts'
import { PassAttempt } from './pass-attempt.ts'

export type ProviderRead = {
  readonly instance: Instance
  /** Whose key is used. */
  readonly team: string
  readonly path: string
  readonly query: string
  /** ms for the whole answer. */
  readonly within: number
}

/** Reads an answer of success to its end. Returns why it was not read, or null. */
export const readProvider = async (
  gateway: ModelCallDeps,
  { instance, team, path, query, within }: ProviderRead,
  onPart: (part: Uint8Array) => Failure | null,
): Promise<Failure | null> => {
  const { world } = gateway
  const address = passAddress(instance, { path, query })
  if (!address.ok) return address.failure
  const [key] = keysFor(gateway, instance, team)
  if (!key) return NO_KEY
  const attempt = new PassAttempt(gateway, {
    call: {
      method: 'GET',
      url: address.value.url,
      headers: { ...providerHeaders(instance, key), accept: '*/*' },
      identity: identityOf(instance, key),
      egress: instance.egress,
    },
    timeout: gateway.config().settings.timeout,
    keep: () => 'none',
    usage: new AnswerUsage(null, world.date()),
  })
  const cancel = world.later(within, () => attempt.failWith(TOO_SLOW))
  try {
    const outcome = await attempt.opened
    if (!outcome.ok) return redactKey(outcome.failure, key)
    const { status } = outcome.head
    if (status >= 300) {
      attempt.abort()
      return fail(status === 404 || status === 410 ? 'not_found' : 'status', `status ${status}`, { status })
    }
    return await new Promise<Failure | null>((resolve) => attempt.pipeTo(sinkOf(attempt, onPart, resolve)))
  } finally {
    cancel()
  }
}

const sinkOf = (
  attempt: PassAttempt,
  onPart: (part: Uint8Array) => Failure | null,
  resolve: (failure: Failure | null) => void,
): Sink<Uint8Array> => ({
  push(part) {
    const failure = onPart(part)
    if (!failure) return true
    attempt.abort()
    resolve(failure)
    return false
  },
  end: (failure) => resolve(failure ?? null),
})

const NO_KEY = fail('auth', 'The provider has no key.')
const TOO_SLOW = fail('timeout', 'The answer takes too long.')
const TOO_LARGE = fail('too_large', 'The answer is too large.')

/** Bytes of an answer, and of a line of results, which may have pictures. */
const MOST = 64 * 1024 * 1024

/** Collects a whole answer. */
export const collector = () => {
  const parts: Uint8Array[] = []
  let size = 0
  return {
    push(part: Uint8Array): Failure | null {
      size += part.length
      if (size > MOST) return TOO_LARGE
      parts.push(new Uint8Array(part))
      return null
    },
    bytes: () => joinedBytes(parts, size),
  }
}

const LINE_FEED = 10

/** Cuts an answer into lines. */
export const lines = (onLine: (line: Uint8Array) => void) => {
  let line = collector()
  const end = () => {
    const bytes = line.bytes()
    line = collector()
    onLine(bytes)
  }
  return {
    push(part: Uint8Array): Failure | null {
      let from = 0
      for (let at = part.indexOf(LINE_FEED); at !== -1; at = part.indexOf(LINE_FEED, from)) {
        const failure = line.push(part.subarray(from, at))
        if (failure) return failure
        end()
        from = at + 1
      }
      return line.push(part.subarray(from))
    },
    end,
  }
}
