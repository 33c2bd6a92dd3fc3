/** Reads and writes objects of a bucket with the API of S3. Each request is signed with the machine's AWS credentials. */
import { createHash } from 'node:crypto'
import type { Settings } from '../../core/settings.ts'
import type { Dial } from '../../core/world.ts'
import { shortRequest } from '../../transport/net/short-request.ts'

export type BucketPlace = Omit<Settings['export']['s3'], 'bucket'> & { readonly bucket: string }

/** `text`: the object's; null: there is none. `reason`: without address, bucket or credentials. */
export type ObjectAnswer =
  | { readonly ok: true; readonly text: string | null }
  | { readonly ok: false; readonly reason: string }

/** ms for one request. */
const TIMEOUT = 60_000
const CONNECT = 5_000
/** The error code in an answer: <Code>SlowDown</Code>. */
const CODE = /<Code>([A-Za-z0-9]{1,64})<\/Code>/

type ObjectStoreOptions = { readonly dial: Dial; readonly signal: AbortSignal }

export class ObjectStore {
  readonly #place: BucketPlace
  readonly #options: ObjectStoreOptions

  constructor(place: BucketPlace, options: ObjectStoreOptions) {
    this.#place = place
    this.#options = options
  }

  get(name: string): Promise<ObjectAnswer> {
    return this.#send('GET', name, null)
  }

  /** Replaces the object of this name. Repeating it changes nothing. */
  put(name: string, body: Uint8Array, type: string): Promise<ObjectAnswer> {
    return this.#send('PUT', name, { body, type })
  }

  async #send(
    method: 'GET' | 'PUT',
    name: string,
    content: { readonly body: Uint8Array; readonly type: string } | null,
  ): Promise<ObjectAnswer> {
    const { dial, signal } = this.#options
    const within = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT)])
    const call = {
      method,
      url: urlOf(this.#place, name),
      headers: {
        'user-agent': 'headgate',
        // The receiver compares it with what has arrived.
        'x-amz-content-sha256': createHash('sha256')
          .update(content?.body ?? '')
          .digest('hex'),
        ...(content && { 'content-type': content.type }),
      },
      ...(content && { body: content.body }),
      identity: { cloud: 'aws', service: 's3', region: this.#place.region },
      connectTimeout: CONNECT,
    } as const
    const sent = await shortRequest(dial, call, within)
    if (!sent.ok) {
      const { kind, message } = sent.failure
      if (kind === 'timeout') return { ok: false, reason: `no response within ${TIMEOUT / 1000} s` }
      return { ok: false, reason: kind === 'auth' || kind === 'proxy' ? message : 'the storage cannot be reached' }
    }
    const { status, body } = sent.value
    if (status === 404 && method === 'GET' && codeIn(body) !== 'NoSuchBucket') return { ok: true, text: null }
    if (status !== 200) return { ok: false, reason: reasonOf(status, codeIn(body)) }
    return { ok: true, text: body === null ? '' : body.toString() }
  }
}

const codeIn = (body: Buffer | null): string | null => CODE.exec(body?.toString('latin1') ?? '')?.[1] ?? null

const reasonOf = (status: number, code: string | null): string => {
  const answer = `the storage responded with status ${status}${code === null ? '' : ` (${code})`}`
  if (status === 301 || status === 307 || code === 'AuthorizationHeaderMalformed')
    return `${answer}; check export.s3.region`
  return status === 403 ? `${answer}; it must allow s3:GetObject, s3:PutObject and s3:ListBucket` : answer
}

/** Each byte as the signature has it, so that no server along the way writes it differently. */
const encoded = (name: string): string =>
  encodeURIComponent(name).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

/** Without `endpoint`, Amazon's address of the bucket. Names with a dot do not fit its certificate. */
const urlOf = ({ bucket, prefix, region, endpoint }: BucketPlace, name: string): string => {
  const path = `${prefix}/${name}`.split('/').filter(Boolean).map(encoded).join('/')
  if (endpoint === undefined && !bucket.includes('.')) return `https://${bucket}.s3.${region}.amazonaws.com/${path}`
  const base = endpoint?.replace(/\/$/, '') ?? `https://s3.${region}.amazonaws.com`
  return `${base}/${encoded(bucket)}/${path}`
}
