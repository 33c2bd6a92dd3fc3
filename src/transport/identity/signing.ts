/** Wraps the dialer: calls with a cloud identity are signed before they are sent. Other calls pass unchanged. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import type { Dial, OngoingCall, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import type { CloudSigner, CloudSignerOptions, SignedHeaders } from './index.ts'
import { masking } from './mask.ts'

export type SigningDialer = {
  readonly dial: Dial
  /** Ends token requests in flight. */
  close(): void
}

/** Loads the signing code with the first call that needs it, which keeps the start fast. */
export const signing = (options: CloudSignerOptions): SigningDialer => {
  const { dial } = options
  let signer: Promise<CloudSigner> | null = null
  const open = async (): Promise<CloudSigner> => {
    const { cloudSigner } = await import('./index.ts')
    return cloudSigner(options)
  }
  return {
    dial(call, listener) {
      if (call.identity === undefined) return dial(call, listener)
      signer ??= open()
      return new SignedCall({ dial, call, identity: call.identity, listener }, signer)
    },
    close: () => void signer?.then((loaded) => loaded.close()),
  }
}

type CallToSign = {
  readonly dial: Dial
  readonly call: UpstreamCall
  readonly identity: Identity
  readonly listener: UpstreamListener
}

/** A call that is sent after it has been signed. */
class SignedCall implements OngoingCall {
  readonly #aborting = new AbortController()
  #call: OngoingCall | null = null

  constructor({ dial, call, identity, listener }: CallToSign, loading: Promise<CloudSigner>) {
    const sign = async (): Promise<void> => {
      // This is asynchronous, so no listener method is called before `dial` has returned.
      const signer = await loading.catch(() => null)
      if (!signer)
        return listener.onFailure(fail('internal', 'Cannot load cloud credentials support.', { unsent: true }))
      const signed = await signer.sign(call, identity, this.#aborting.signal)
      if (this.#aborting.signal.aborted) return
      if (!signed.ok) return listener.onFailure(signed.failure)
      const { headers } = signed.value
      const masked = maskingListener(listener, signed.value, (status) => {
        if (isRefusal(status, identity)) signer.refused(identity)
      })
      this.#call = dial({ ...call, headers: { ...call.headers, ...headers } }, masked)
    }
    void sign()
  }

  abort(): void {
    this.#aborting.abort()
    this.#call?.abort()
  }

  resume(): void {
    this.#call?.resume()
  }

  write(bytes: Uint8Array, drained: () => void): boolean {
    return this.#call?.write?.(bytes, drained) ?? true
  }
}

/** AWS returns 403 for an expired or unknown token (ExpiredTokenException, UnrecognizedClientException), the others 401. */
const isRefusal = (status: number, { cloud }: Identity): boolean =>
  status === 401 || (cloud === 'aws' && status === 403)

/** Masks the credentials in error responses; successful responses pass unchanged. */
const maskingListener = (
  listener: UpstreamListener,
  { secrets }: SignedHeaders,
  onStatus: (status: number) => void,
): UpstreamListener => {
  let mask: ReturnType<typeof masking> | null = null
  const emit = (slices: readonly Uint8Array[]): boolean => {
    let room = true
    for (const slice of slices) room = listener.onBody(slice)
    return room
  }
  return {
    onHeaders(status, headers) {
      onStatus(status)
      if (status >= 400 && secrets.length > 0) mask = masking(secrets)
      listener.onHeaders(status, headers)
    },
    onBody: (chunk) => (mask ? emit(mask.push(chunk)) : listener.onBody(chunk)),
    onEnd() {
      if (mask) emit(mask.end())
      listener.onEnd()
    },
    onPaused: (stopped) => listener.onPaused?.(stopped),
    onFailure(failure: Failure) {
      if (mask) emit(mask.end())
      listener.onFailure(failure)
    },
  }
}
