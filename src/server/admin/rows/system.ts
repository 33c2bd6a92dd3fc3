/** The state of the process. */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { z } from 'zod'
import { IN_POSTGRES } from '../../../backup/data-files.ts'
import { backUp } from '../../../backup/write-backups.ts'
import { bad, fail, good } from '../../../core/failure.ts'
import type { ListedGateway } from '../../../core/fleet.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { Settings } from '../../../core/settings.ts'
import { journalFolder } from '../../../usage/bookkeeper/usage-ledger.ts'
import { BACKUP_STATE, type PROCESS_STATE, SYSTEM } from '../../answers/system.ts'
import { noteAudit } from '../control.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'
import { reloadAnswer, reloadEntry } from './config.ts'

const foldersOf = (settings: Settings) => ({
  data: resolve(settings.data.dir),
  journal: resolve(journalFolder(settings)),
  isShared: settings.database.url !== undefined,
})

/** Sends a file as fast as the client reads it, and deletes it. */
const sendFile = async (file: string, reply: ResponseWriter): Promise<void> => {
  const source = createReadStream(file)
  let wake = () => {}
  reply.onDisconnect(() => {
    source.destroy()
    wake()
  })
  try {
    for await (const chunk of source) {
      // Without an encoding the chunks are buffers.
      if (reply.write(chunk as Buffer)) continue
      await new Promise<void>((resume) => {
        wake = resume
        reply.onDrain(resume)
      })
    }
    reply.end()
  } catch {
    // The client has left, or the file cannot be read: an incomplete body is the only sign.
    reply.abort()
  } finally {
    await rm(file, { force: true })
  }
}

const shownGateway = ({ problems, ...rest }: ListedGateway) => ({ ...rest, problems: [...problems] })

export const systemRows = [
  row({
    method: 'GET',
    path: '/system/backup',
    summary: 'Show when the last backup of the data folder was written',
    about:
      'By `headgate backup` or `POST /system/backup`. Copies of the disk and dumps of Postgres are not known to the gateway.',
    role: 'operator',
    scope: 'all',
    answer: BACKUP_STATE,
    example: {
      answer: {
        object: 'backup_state',
        last: { at: '2026-11-23T03:00:00.000Z', bytes: 52_000_000, usage: true },
        data: '/var/lib/headgate',
        folder: '/etc/headgate',
        postgres: false,
      },
    },
    async handle({ configuration }) {
      const { data, isShared } = foldersOf(configuration.running().settings)
      const { lastBackup } = await import('../../../backup/backup.ts')
      const folder = configuration.sources.folder
      return good({
        body: { object: 'backup_state' as const, last: lastBackup(data), data, folder, postgres: isShared },
      })
    },
  }),
  row({
    method: 'POST',
    path: '/system/backup',
    summary: 'Write a backup of the data folder and send it',
    about:
      'A `.tar.gz` as `headgate backup` writes it, for `headgate restore`: the databases and the journal. It contains the digests of keys and the audit log; it has no keys of providers, no headgate.yaml and no pepper. The data folder needs room for a copy. With `DATABASE_URL` it has neither keys, budgets and the audit log nor usage, which are in Postgres (`pg_dump`); the header `x-headgate-warning` says so.',
    role: 'admin',
    scope: 'all',
    answer: { media: 'application/gzip', about: 'The archive' },
    example: {},
    async handle(deps, call) {
      const { configuration, control, process: facts } = deps
      const folders = foldersOf(configuration.running().settings)
      const found = await backUp(folders, facts.version)
      if ('problem' in found)
        return bad(fail('storage', `The backup cannot be written: ${found.problem}.`, { retryAfter: 2_000 }))
      await noteAudit(control, call, { action: 'system.backup', object: 'data', details: {} })
      const day = new Date(deps.gateway.world.date()).toISOString().slice(0, 10)
      return good({
        stream(reply) {
          reply.writeHead(200, {
            'content-type': 'application/gzip',
            'content-disposition': `attachment; filename="headgate-${day}.tar.gz"`,
            'cache-control': 'no-store',
            ...(folders.isShared && { 'x-headgate-warning': IN_POSTGRES }),
          })
          return sendFile(found.file, reply)
        },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/system',
    summary:
      'Show the state of the process, of the others that serve the port, and of other gateways that share a store',
    role: 'viewer',
    scope: 'any',
    answer: SYSTEM,
    example: {
      answer: {
        object: 'system',
        status: 'ok',
        version: '0.1.0',
        node: 'v24.21.0',
        platform: 'linux x64',
        pid: 4711,
        started_at: '2026-11-23T09:00:00.000Z',
        uptime_ms: 3_600_000,
        production: true,
        catalogue: '2026-11-21',
        worker: null,
        requests_in_progress: 3,
        connections: 12,
        memory: { rss: 92_000_000, heap_used: 31_000_000, external: 4_000_000 },
        ledger: { lag_ms: 0, dropped: 0 },
        problems: [],
        nodes: [],
        gateways: [],
      },
    },
    async handle(deps) {
      const { version, production, worker } = deps.process
      const { answers, gateways } = await askProcesses(deps, { do: 'system' })
      // `answerHere` returns these members.
      const nodes = answers.map(
        ({ name, value }) => ({ ...value, node: name }) as unknown as z.input<typeof PROCESS_STATE>,
      )
      const [own] = nodes
      if (!own) return bad(fail('internal', 'This process has not answered.'))
      const platform = `${process.platform} ${process.arch}`
      const { lagMs, dropped } = deps.ledger.state()
      const ledger = { lag_ms: lagMs, dropped }
      const catalogue = deps.gateway.catalogue.date?.() ?? null
      const here = { version, node: process.version, platform, production, catalogue, worker, ledger }
      return good({
        body: { ...own, object: 'system' as const, ...here, nodes, gateways: gateways?.map(shownGateway) ?? [] },
      })
    },
  }),
  row({
    method: 'POST',
    path: '/system/reload',
    summary: 'Read the configuration again',
    about:
      'As SIGHUP does, in all processes, also of other gateways that share a store. A refused configuration is reported in the answer, and the running one stays.',
    role: 'operator',
    scope: 'all',
    answer: reloadEntry,
    example: {
      answer: {
        at: '2026-11-23T10:00:00.000Z',
        outcome: 'changed',
        changes: ['circuit.timeout: 30000 → 20000'],
        warnings: [],
        problems: [],
      },
    },
    async handle(deps) {
      const { configuration, gateway } = deps
      const before = configuration.reloads()[0]
      await configuration.reload()
      const [latest] = configuration.reloads()
      // The other processes read it too; for this one it is unchanged then.
      if (deps.processes) await askProcesses(deps, { do: 'reload' })
      if (latest && latest !== before) return good({ body: reloadAnswer(latest) })
      const at = gateway.world.date()
      return good({ body: reloadAnswer({ at, outcome: 'unchanged', changes: [], warnings: [], problems: [] }) })
    },
  }),
]
