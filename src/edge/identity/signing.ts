/** The way upstream for calls that are signed in first. Calls without an identity do not come this way at all. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import type { Dial, Ongoing, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import type { Identities, IdentitiesOptions, SignIn } from './index.ts'
import { masking } from './mask.ts'

export type Signing = {
  readonly dial: Dial
  /** Ends the fetching of credentials. */
  close(): void
}

/** What signs is loaded with the first call that needs it, so that nobody else waits for it at the start. */
export const signing = (options: IdentitiesOptions): Signing => {
  const { dial } = options
  let identities: Promise<Identities> | null = null
  const open = async (): Promise<Identities> => {
    const { openIdentities } = await import('./index.ts')
    return openIdentities(options)
  }
  return {
    dial(call, listener) {
      if (call.identity === undefined) return dial(call, listener)
      identities ??= open()
      return new SignedCall(dial, identities, call, call.identity, listener)
    },
    close: () => void identities?.then((all) => all.close()),
  }
}

class SignedCall implements Ongoing {
  readonly #leaving = new AbortController()
  #call: Ongoing | null = null

  constructor(
    dial: Dial,
    identities: Promise<Identities>,
    call: UpstreamCall,
    identity: Identity,
    listener: UpstreamListener,
  ) {
    const sign = async (): Promise<void> => {
      // This answers later, so no listener is called before `dial` has returned.
      const all = await identities.catch(() => null)
      if (!all) return listener.failed(fail('internal', 'What signs calls in cannot be loaded.', { unsent: true }))
      const signed = await all.sign(call, identity, this.#leaving.signal)
      if (this.#leaving.signal.aborted) return
      if (!signed.ok) return listener.failed(signed.failure)
      const { headers } = signed.value
      const heard = guarded(listener, signed.value, (status) => {
        if (isRefusal(status, identity)) all.refused(identity)
      })
      this.#call = dial({ ...call, headers: { ...call.headers, ...headers } }, heard)
    }
    void sign()
  }

  abort(): void {
    this.#leaving.abort()
    this.#call?.abort()
  }

  resume(): void {
    this.#call?.resume()
  }
}

/** AWS says 403 of an expired or unknown token (ExpiredTokenException, UnrecognizedClientException), the others 401. */
const isRefusal = (status: number, { cloud }: Identity): boolean =>
  status === 401 || (cloud === 'aws' && status === 403)

/** Only errors are searched for what the call was signed in with; an answer passes as it is. */
const guarded = (listener: UpstreamListener, { secrets }: SignIn, told: (status: number) => void): UpstreamListener => {
  let mask: ReturnType<typeof masking> | null = null
  const give = (slices: readonly Uint8Array[]): boolean => {
    let room = true
    for (const slice of slices) room = listener.bytes(slice)
    return room
  }
  return {
    head(status, headers) {
      told(status)
      if (status >= 400 && secrets.length > 0) mask = masking(secrets)
      listener.head(status, headers)
    },
    bytes: (chunk) => (mask ? give(mask.push(chunk)) : listener.bytes(chunk)),
    end() {
      if (mask) give(mask.end())
      listener.end()
    },
    failed(failure: Failure) {
      if (mask) give(mask.end())
      listener.failed(failure)
    },
  }
}
