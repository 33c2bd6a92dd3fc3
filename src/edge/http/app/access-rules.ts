/** Access by API key, and which requests count as local. */
import { isIP } from 'node:net'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { Settings } from '../../../core/settings.ts'
import { keyRing, type Ring } from './client-keys.ts'
import { maskPath, type OwnKeys, slashesIn } from './mask-path.ts'
import type { ApiRoute } from './routes.ts'

type Rings = {
  readonly settings: Settings
  readonly clients: Ring
  readonly operators: Ring
  readonly own: OwnKeys
}

/** Checks presented keys. The digests are computed once per settings object. */
export class AccessRules {
  #rings: Rings | null = null

  /** The ID of the client key that grants access to the route; empty where no client key is needed. */
  check(settings: Settings, { access }: ApiRoute, presented: string | undefined, local: boolean): Outcome<string> {
    const open = access === 'open' || (access === 'client' && settings.auth.keys.length === 0)
    if (open || (access === 'operator' && local)) return good('')
    const { clients, operators } = this.#ringsOf(settings)
    const client = clients(presented)
    if (client !== undefined) return good(client)
    if (access === 'operator' && operators(presented) !== undefined) return good('')
    return bad(fail('unauthenticated', keyProblem(access, presented)))
  }

  /** The path for errors and the log, with keys masked. `known`: the path has a route. */
  shownPath(settings: Settings, path: string, known: boolean): string {
    return maskPath(path, this.#ringsOf(settings).own, known)
  }

  #ringsOf(settings: Settings): Rings {
    if (this.#rings?.settings === settings) return this.#rings
    const { keys, admin } = settings.auth
    const admins = admin === undefined ? [] : [admin]
    const clients = keyRing(keys)
    const operators = keyRing(admins)
    const own: OwnKeys = {
      has: (text) => (clients(text) ?? operators(text)) !== undefined,
      slashes: slashesIn([...keys, ...admins]),
    }
    this.#rings = { settings, clients, operators, own }
    return this.#rings
  }
}

/** The same message for a wrong key and a revoked one, so that a response reveals nothing about former keys. */
const keyProblem = (access: ApiRoute['access'], presented: string | undefined): string => {
  const missing = presented === undefined
  if (access === 'client')
    return missing
      ? 'No API key was sent. Send a client key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`.'
      : 'Unknown API key. Send a client key of this gateway (auth.keys, AUTH_KEYS); the keys of providers are not accepted here.'
  return missing
    ? 'No API key was sent. From another machine this page requires a client key or the admin token (auth.admin, AUTH_ADMIN) as `Authorization: Bearer KEY`.'
    : 'Unknown API key. This page requires a client key or the admin token (auth.admin, AUTH_ADMIN).'
}

const FORWARDING = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

/** Whether a request comes from this machine. A forwarding header means that a local proxy sends it for another client. */
export const isLocal = (loopback: boolean, headers: HeaderLookup): boolean =>
  loopback && FORWARDING.every((name) => headers(name) === undefined)

/** Whether an address or host name is a loopback one; IPv4-mapped IPv6 addresses and brackets included. */
export const isLoopback = (address: string): boolean => {
  const plain = address
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:/, '')
  return plain === 'localhost' || plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}
