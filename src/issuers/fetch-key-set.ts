/** Fetches the key set of an issuer: from its address, as the issuer states it, or from a file. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Egress } from '../core/egress.ts'
import { type Json, parseObject, readJson, text } from '../core/json.ts'
import type { KeySetPlace } from '../core/token-rule.ts'
import type { Dial } from '../core/world.ts'
import { type PublicKey, publicKeysOf } from '../policy/identity/choose-key.ts'
import { discoveryAddress, isKeyAddress } from '../policy/identity/key-address.ts'
import { freshFor } from '../policy/identity/key-refresh.ts'
import { shortRequest } from '../transport/net/short-request.ts'

/** ms for a key set, with the discovery before it. */
const PATIENCE = 5_000
/** ms after which a file is read again. */
const FILE_FRESH = 5 * 60_000

/** `fresh`: ms for which it counts as new. */
export type FetchedSet =
  | { readonly ok: true; readonly keys: readonly PublicKey[]; readonly fresh: number }
  | { readonly ok: false; readonly problem: string }

/** `network`: how connections leave this machine. */
export type FetchDeps = { readonly dial: Dial; readonly network: () => Egress }

/** Never rejects. A set without a key that verifies signatures is a failure. */
export const fetchKeySet = async (deps: FetchDeps, place: KeySetPlace): Promise<FetchedSet> => {
  try {
    if (place.file !== null) return setFrom(readJson(await readFile(place.file, 'utf8')), FILE_FRESH)
    const token = place.tokenFile === null ? null : (await readFile(place.tokenFile, 'utf8')).trim()
    if (place.caFile === null) return await fetchSet(deps.dial, place, token)
    const egress = trusting(deps.network(), await readFile(place.caFile, 'utf8'))
    return await fetchSet((call, listener) => deps.dial({ ...call, egress }, listener), place, token)
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) }
  }
}

/** Trusts these certificates only. */
const trusting = (network: Egress, ca: string): Egress => ({
  ...network,
  id: createHash('sha256')
    .update(JSON.stringify([network.id, ca]))
    .digest('base64url'),
  tls: { ca, caOnly: true, client: null, serverName: null },
})

const fetchSet = async (dial: Dial, place: KeySetPlace, token: string | null): Promise<FetchedSet> => {
  const signal = AbortSignal.timeout(PATIENCE)
  const configured = place.url ?? discoveryAddress(place.issuer)
  // The token is for the configured address, and for no other that a document names.
  const get = (url: string) => {
    const isOwn = token !== null && new URL(url).origin === new URL(configured).origin
    return fetchText(dial, { url, token: isOwn ? token : null }, signal)
  }
  let address = configured
  if (place.url === null) {
    const found = await get(configured)
    if (!found.ok) return found
    const { issuer, jwks_uri } = parseObject(found.text) ?? {}
    if (issuer !== place.issuer)
      return {
        ok: false,
        problem: `the document names the issuer ${JSON.stringify(issuer)}, not ${JSON.stringify(place.issuer)} (${configured})`,
      }
    address = text(jwks_uri) ?? ''
    if (!isKeyAddress(address)) return { ok: false, problem: `jwks_uri is no https address (${configured})` }
  }
  const fetched = await get(address)
  return fetched.ok ? setFrom(readJson(fetched.text), freshFor(fetched.cacheControl), address) : fetched
}

type FetchedText =
  | { readonly ok: true; readonly text: string; readonly cacheControl: string | undefined }
  | { readonly ok: false; readonly problem: string }

const fetchText = async (
  dial: Dial,
  { url, token }: { readonly url: string; readonly token: string | null },
  signal: AbortSignal,
): Promise<FetchedText> => {
  const failed = (problem: string) => ({ ok: false, problem: `${problem} (${url})` }) as const
  const headers = { accept: 'application/json', ...(token !== null && { authorization: `Bearer ${token}` }) }
  const sent = await shortRequest(dial, { method: 'GET', url, headers, connectTimeout: PATIENCE }, signal)
  if (!sent.ok) {
    const { kind, message } = sent.failure
    return failed(kind === 'timeout' ? `no answer within ${PATIENCE} ms` : message.replace(/\.$/, ''))
  }
  const { status, headers: find, body } = sent.value
  if (status !== 200) return failed(`status ${status}`)
  if (body === null) return failed('the answer is larger than 256 KiB')
  return { ok: true, text: body.toString(), cacheControl: find('cache-control') }
}

const setFrom = (set: Json | undefined, fresh: number, address?: string): FetchedSet => {
  const keys = publicKeysOf(set)
  const place = address === undefined ? '' : ` (${address})`
  if (!keys) return { ok: false, problem: `the answer is no key set (JWK Set)${place}` }
  if (keys.length === 0) return { ok: false, problem: `the key set has no public key for signatures${place}` }
  return { ok: true, keys, fresh }
}
