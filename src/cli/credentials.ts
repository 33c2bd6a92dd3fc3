/** The tokens of `headgate login`, by the address of the gateway, in a file of the user's own. */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import type { Env } from '../config/env.ts'
import { parseJson } from '../core/json.ts'
import { CliError, EXIT } from './cli.ts'

const CREDENTIAL = z.looseObject({
  access_token: z.string(),
  refresh_token: z.string(),
  /** ms since 1970. */
  expires_at: z.number(),
  email: z.string().nullable(),
})
const FILE = z.looseObject({
  /** The address of the last sign-in. */
  last: z.string().nullable(),
  gateways: z.record(z.string(), CREDENTIAL),
})

export type StoredTokens = z.infer<typeof CREDENTIAL>
type Credentials = z.infer<typeof FILE>

const NONE: Credentials = { last: null, gateways: {} }

/** Null: the environment names no folder of the user. */
const placeOf = ({ XDG_CONFIG_HOME, APPDATA, HOME }: Env): string | null => {
  const folder = XDG_CONFIG_HOME || APPDATA || (HOME ? join(HOME, '.config') : '')
  return folder === '' ? null : join(folder, 'headgate', 'credentials.json')
}

/** The file; empty if there is none, or none that this program has written. */
export const readCredentials = async (env: Env): Promise<Credentials> => {
  const place = placeOf(env)
  if (place === null) return NONE
  const content = await readFile(place, 'utf8').catch(() => '')
  try {
    const read = FILE.safeParse(parseJson(content))
    return read.success ? read.data : NONE
  } catch {
    return NONE
  }
}

/** Stores or, with null, removes the tokens for an address. Another program sees the file before or after, never a part of it. */
export const storeCredential = async (env: Env, url: string, credential: StoredTokens | null): Promise<void> => {
  const place = placeOf(env)
  if (place === null) throw new CliError(EXIT.failed, 'Tokens cannot be kept: set HOME or XDG_CONFIG_HOME.')
  const { gateways, last, ...rest } = await readCredentials(env)
  const { [url]: _former, ...others } = gateways
  const next: Credentials =
    credential === null
      ? { ...rest, last: last === url ? (Object.keys(others)[0] ?? null) : last, gateways: others }
      : { ...rest, last: url, gateways: { ...others, [url]: credential } }
  await mkdir(dirname(place), { recursive: true, mode: 0o700 })
  const draft = `${place}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, `${JSON.stringify(next, null, 2)}\n`, { mode: 0o600 })
  // The mask of the process may have taken rights of the owner away.
  await chmod(draft, 0o600)
  await rename(draft, place)
}
