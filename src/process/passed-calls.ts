/** What passed calls keep: the owners of objects, and batches, which are booked. All is loaded with the first call that needs it. */
import type { Client, Directory } from '../core/accounts.ts'
import type { PassBatches } from '../core/pass-batches.ts'
import type { PassObjects, PassOwner } from '../core/pass-objects.ts'
import type { Cancel, World } from '../core/world.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { BatchBooks } from '../gateway/pass/batch-books.ts'
import { clientOf } from '../policy/accounts/client.ts'
import { missingTeam } from '../policy/accounts/directory.ts'
import { personClient } from '../policy/accounts/person-client.ts'
import type { PassStore } from '../storage/pass/pass-store.ts'
import { sharedDatabase } from '../storage/sql/shared-database.ts'
import { openReader } from './admin-parts.ts'
import type { Runtime } from './runtime.ts'

type BatchBooking = NonNullable<Gateway['batches']> & { readonly stop: () => void }

type PassedParts = Pick<Runtime, 'current' | 'keys' | 'log' | 'ledger' | 'issuers'> & {
  readonly gateway: () => Gateway
}

export const openPassedCalls = (
  parts: PassedParts,
  world: World,
): Required<Pick<Gateway, 'passObjects' | 'batches'>> => {
  const store = openPassStore(parts, world)
  const { stop, ...batches } = openBatches(parts, store, world)
  const close = () => {
    stop()
    return store.close()
  }
  return { passObjects: { ...store, close }, batches }
}

/** Two gateways that start together must not ask together. */
const SPREAD = 0.1

const openBatches = (parts: PassedParts, store: PassBatches, world: World): BatchBooking => {
  const { current, keys, log, gateway } = parts
  let opening: Promise<BatchBooks> | null = null
  let cancel: Cancel | null = null
  let isStopped = false
  const opened = () => {
    schedule()
    opening ??= import('../gateway/pass/batch-books.ts').then(
      ({ BatchBooks }) =>
        new BatchBooks({
          gateway,
          store,
          creator: (owner) => creatorOf(keys.directory(), owner),
          isRecorded: async (request) => {
            if (!current.config.settings.usage.ledger) return NOT_RECORDED
            const reader = await readerOf(parts)
            const found = await reader.request({ id: request, key: null, team: null })
            return found.ok ? { ok: true, value: found.value !== null } : found
          },
          report: (message) => log.warn('batches', { message }),
        }),
    )
    return opening
  }
  const schedule = () => {
    if (cancel || isStopped) return
    const { interval } = current.config.settings.batches
    cancel = world.later(interval * (1 + SPREAD * world.random()), () => {
      void opened()
        .then((books) => books.poll())
        .catch((error) => log.error('batches', { message: String(error) }))
        .finally(() => {
          cancel = null
          schedule()
        })
    })
  }
  // Batches that were made before the start.
  if (current.config.instances.some(({ passThrough }) => passThrough)) schedule()
  return {
    observe: async (call, answer) => (await opened()).observe(call, answer),
    settleDeleted: async (call) => (await opened()).settleDeleted(call),
    stop() {
      isStopped = true
      cancel?.()
    },
  }
}

const NOT_RECORDED = { ok: true, value: false } as const

/** The client of a key, which may be revoked. One that no longer exists has its ID as its name. */
const creatorOf = ({ keys, teams }: Directory, { key: id, team: teamId }: PassOwner): Client => {
  const team = teams.get(teamId) ?? missingTeam(teamId)
  const key = keys.get(id)
  return key ? clientOf(key, team) : personClient({ id, name: id, email: null }, team)
}

/** The owners of objects of passed calls, and the batches. Their store is loaded with the first call. */
const openPassStore = ({ current }: Pick<Runtime, 'current'>, { date }: World): PassObjects & PassBatches => {
  let opening: Promise<PassStore> | null = null
  const opened = () => {
    opening ??= import('../storage/pass/pass-store.ts').then(({ PassStore }) => {
      const { settings } = current.config
      const interval = () => current.config.settings.batches.interval
      return new PassStore({ folder: settings.data.dir, database: sharedDatabase(settings), date, interval })
    })
    return opening
  }
  return {
    keep: async (instance, ids, owner) => (await opened()).keep(instance, ids, owner),
    owners: async (instance, ids) => (await opened()).owners(instance, ids),
    add: async (batch) => (await opened()).add(batch),
    claim: async (instance, id) => (await opened()).claim(instance, id),
    booked: async (instance, id) => (await opened()).booked(instance, id),
    postpone: async (instance, id) => (await opened()).postpone(instance, id),
    due: async () => (await opened()).due(),
    close: async () => (await opening)?.close(),
  }
}

const readerOf = ({ gateway, ...parts }: PassedParts) => openReader({ ...parts, gateway: gateway() })
