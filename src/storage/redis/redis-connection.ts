/**
 * Connects to Redis or Valkey: one server, a cluster, or the primary that Sentinel names. The thread that has the connection
 * watches the time itself, so that a stopped server delays nothing but those who wait for it.
 */
import { Cluster, Redis } from 'ioredis'

export type RedisConnection = Redis | Cluster

/** The servers that have the keys: each primary of a cluster, or the only one. */
export const primariesOf = (redis: RedisConnection): readonly Redis[] =>
  redis instanceof Cluster ? redis.nodes('master') : [redis]

/** How to reach it, by the form of its URL. */
export type RedisAddress = {
  readonly kind: 'server' | 'cluster' | 'sentinel'
  readonly hosts: readonly { readonly host: string; readonly port: number }[]
  readonly username?: string
  readonly password?: string
  /** The number of the database, or the name of the primary of Sentinel. */
  readonly path: string
  readonly hasTls: boolean
}

const PORTS = { server: 6_379, cluster: 6_379, sentinel: 26_379 } as const

/**
 * Parses `redis://`, `redis+cluster://host,host` and `redis+sentinel://host,host/primary`, each with `rediss` for TLS. Throws if
 * the URL has another form; the message contains no part of it.
 */
export const redisAddress = (url: string): RedisAddress => {
  const [, protocol = '', kind = 'server', login, list = '', path = ''] =
    /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^@]*)@)?([^/?#]*)(?:\/([^?#]*))?$/.exec(url) ?? []
  if (list === '' || (kind !== 'server' && kind !== 'cluster' && kind !== 'sentinel')) throw new TypeError(FORM)
  if (kind === 'sentinel' && path === '') throw new TypeError(FORM)
  const hosts = list.split(',').map((one) => {
    const { hostname, port } = new URL(`http://${one}`)
    return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? PORTS[kind] : Number(port) }
  })
  const colon = login?.indexOf(':') ?? -1
  const username = decodeURIComponent(login?.slice(0, Math.max(0, colon)) ?? '')
  const password = decodeURIComponent(login?.slice(colon + 1) ?? '')
  return {
    ...{ kind, hosts, path, hasTls: protocol === 'rediss' },
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
  }
}

const FORM = 'redis.url is none of redis://host, redis+cluster://host,host and redis+sentinel://host,host/primary'

/** ms. `probe`: between two tries to connect, up to a quarter more or less. */
const TIMES = { first: 50, probe: 1_000 }

const retryAfter = (times: number): number => (times === 1 ? TIMES.first : TIMES.probe * (0.75 + Math.random() / 2))

/** The server was the primary, and is a replica now: its address names another one, or will. */
const isDemoted = (error: Error): boolean => redisCode(error) === 'READONLY'

/** The code of an error, such as `OOM`; null: it has none. Redis 6 has that of a command in a script in the middle of the message. */
export const redisCode = ({ message }: Error): string | null =>
  (/ -([A-Z]{3,20}) /.exec(message) ?? /^([A-Z]{3,20}) /.exec(message))?.[1] ?? null

/** Limits in ms. `pipelines`: commands of one turn are sent together; false for a connection that waits in a command. */
export type RedisLimits = { readonly connect: number; readonly command: number; readonly pipelines: boolean }

export const connectRedis = (url: string, { connect, command, pipelines }: RedisLimits): RedisConnection => {
  const { kind, hosts, username, password, path, hasTls } = redisAddress(url)
  const options = {
    ...{ lazyConnect: true, enableOfflineQueue: false, enableReadyCheck: true, autoResendUnfulfilledCommands: false },
    ...{ disableClientInfo: true, maxRetriesPerRequest: 0, connectTimeout: connect, commandTimeout: command },
    ...{ enableAutoPipelining: pipelines, retryStrategy: retryAfter, reconnectOnError: isDemoted },
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(hasTls && { tls: {} }),
  }
  switch (kind) {
    case 'cluster':
      return new Cluster([...hosts], {
        ...{
          lazyConnect: true,
          enableOfflineQueue: false,
          enableAutoPipelining: pipelines,
          slotsRefreshTimeout: connect,
        },
        ...{ clusterRetryStrategy: retryAfter, redisOptions: options },
      })
    case 'sentinel':
      return new Redis({
        ...options,
        ...{ sentinels: [...hosts], name: path, sentinelRetryStrategy: retryAfter, enableTLSForSentinelMode: hasTls },
        ...(password !== undefined && { sentinelPassword: password }),
      })
    case 'server': {
      const [{ host, port } = { host: '127.0.0.1', port: PORTS.server }] = hosts
      return new Redis({ ...options, host, port, db: Number(path) || 0 })
    }
    default:
      throw new Error(`unknown kind ${JSON.stringify(kind satisfies never)}`)
  }
}
