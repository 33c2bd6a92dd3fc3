/** `headgate doctor`: checks this machine, the configuration, the data folder and the provider keys. */

import { X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, readdirSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { access, constants } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { DATABASES } from '../../backup/data-files.ts'
import { schemaStates } from '../../backup/schemas.ts'
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { problemLine } from '../../config/problem.ts'
import type { FullConfig } from '../../core/config.ts'
import { Retirements } from '../../gateway/health/retirements.ts'
import { telemetryOptions } from '../../observe/otlp/telemetry-settings.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { listModels } from '../../policy/routing/models.ts'
import { retiringModels } from '../../policy/routing/retirement.ts'
import { freePort } from '../../runtime/free-port.ts'
import { RETIRING } from '../../server/answers/providers.ts'
import { TELEMETRY } from '../../server/answers/telemetry.ts'
import { schemaVersionOf } from '../../storage/sql/sqlite/schema-version.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { findGateway, runningHere } from '../gateway-client.ts'
import { type Local, readLocal, sharedIn } from '../local.ts'
import { checkKeys } from '../provider-check.ts'
import { checkProxies } from '../proxy-check.ts'
import { table } from '../table.ts'

type Finding = {
  readonly check: string
  readonly status: 'ok' | 'warning' | 'failed' | 'skipped'
  readonly detail: string
}
/** A check returns its findings. `fix` allows changes of file modes. */
type Check = (local: Local, cli: Cli, fix: boolean) => Promise<readonly Finding[]> | readonly Finding[]

const finding = (check: string, status: Finding['status'], detail: string): Finding => ({ check, status, detail })

const MIN_NODE = 24
const node: Check = () => {
  const { node: version } = process.versions
  const isEnough = Number(version.split('.')[0]) >= MIN_NODE
  return [
    finding('node', isEnough ? 'ok' : 'failed', isEnough ? version : `${version}; ${MIN_NODE} or newer is needed`),
  ]
}

const configuration: Check = ({ loaded }) => [
  ...(loaded.ok
    ? [
        finding(
          'configuration',
          'ok',
          `${loaded.sources.file ?? 'environment only'}, ${loaded.config.instances.length} providers`,
        ),
      ]
    : loaded.problems.map((problem) => finding('configuration', 'failed', problemLine(problem)))),
  ...loaded.warnings.map((warning) => finding('configuration', 'warning', warning)),
]

/** Whether the port can be used: `null`, or the error code. */
const portProblem = (port: number, host: string | undefined): Promise<string | null> =>
  freePort(port, host).then(
    () => null,
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  )

const port: Check = async (local) => {
  const running = runningHere(local)
  if (running) return [finding('port', 'ok', `a gateway of this folder serves ${running.url}`)]
  const { launch } = local.loaded
  if (!launch) return [finding('port', 'skipped', 'the configuration is invalid')]
  if (launch.socket) return [finding('port', 'skipped', `${launch.host} is a Unix socket, which the start checks`)]
  const problem = await portProblem(launch.port, launch.host)
  const choice = `choose another: headgate start --port ${launch.port + 1}`
  return [
    finding(
      'port',
      problem === null ? 'ok' : 'failed',
      problem === null ? `${launch.port} is free` : `${launch.port} cannot be used (${problem}); ${choice}`,
    ),
  ]
}

/** The folder, or its nearest ancestor that exists. */
const existing = (folder: string): string =>
  existsSync(folder) || dirname(folder) === folder ? folder : existing(dirname(folder))

const MEBIBYTE = 1024 * 1024
const [LOW_DISK, FULL_DISK] = [1024 * MEBIBYTE, 100 * MEBIBYTE]

const dataFolder: Check = async ({ dataDir }) => {
  const place = existing(dataDir)
  const isWritable = await access(place, constants.W_OK).then(
    () => true,
    () => false,
  )
  const { bavail, bsize } = statfsSync(place)
  const free = bavail * bsize
  const amount = `${Math.round(free / MEBIBYTE).toLocaleString('en')} MiB free`
  return [
    finding(
      'data folder',
      isWritable ? 'ok' : 'failed',
      isWritable ? dataDir : `${dataDir} cannot be written; set DATA_DIR`,
    ),
    finding('disk', free < FULL_DISK ? 'failed' : free < LOW_DISK ? 'warning' : 'ok', amount),
  ]
}

/** Files that only their owner may read. */
const privateFiles = ({ dataDir }: Local, { host }: Cli): readonly string[] => [
  ...['.env', 'headgate.yaml'].map((name) => join(host.folder, name)),
  ...(existsSync(dataDir) ? [dataDir, ...readdirSync(dataDir).map((name) => join(dataDir, name))] : []),
]

const fileModes: Check = (local, cli, fix) => {
  if (process.platform === 'win32') return [finding('file modes', 'skipped', 'Windows keeps permissions elsewhere')]
  const open = privateFiles(local, cli).filter((path) => {
    const stats = statSync(path, { throwIfNoEntry: false })
    return stats !== undefined && (stats.mode & 0o007) !== 0
  })
  if (open.length === 0) return [finding('file modes', 'ok', 'no file is readable by other users')]
  if (!fix)
    return open.map((path) =>
      finding('file modes', 'warning', `${path} is accessible to every user; headgate doctor --fix changes that`),
    )
  return open.map((path) => {
    chmodSync(path, statSync(path).mode & 0o770)
    return finding('file modes', 'ok', `${path} is no longer accessible to other users`)
  })
}

const databases: Check = ({ dataDir }) =>
  DATABASES.map(({ file }) => file)
    .filter((name) => existsSync(join(dataDir, name)))
    .map((name) => {
      try {
        const version = schemaVersionOf(join(dataDir, name))
        return finding('database', 'ok', version === null ? name : `${name}, schema version ${version}`)
      } catch (error) {
        return finding('database', 'failed', `${name}: ${error instanceof Error ? error.message : 'cannot be opened'}`)
      }
    })

const sharedSchemas: Check = async (local) => {
  const shared = sharedIn(local)
  if (!shared) return []
  const states = await schemaStates(shared.url)
  return states.map(({ schema, version, newest, problem }) => {
    if (problem !== null) return finding('Postgres', 'failed', `${schema}: ${problem}`)
    const found = version === null ? 'no tables so far' : `schema version ${version}`
    if (version === newest) return finding('Postgres', 'ok', `${schema}, ${found}`)
    return shared.migrate === 'auto'
      ? finding('Postgres', 'ok', `${schema}, ${found}; the next start migrates it to ${newest}`)
      : finding('Postgres', 'failed', `${schema}, ${found} (needed: ${newest}); run: headgate db migrate`)
  })
}

/** A clock further away than this breaks signatures of cloud providers and expiry times, in ms. */
const CLOCK_TOLERANCE = 60_000

const providers: Check = async ({ loaded }, { host }) => {
  if (!loaded.ok) return [finding('provider keys', 'skipped', 'the configuration is invalid')]
  const checks = await checkKeys(loaded.config, host)
  const clocks = checks.flatMap(({ clock }) => (clock === null ? [] : [clock])).toSorted((a, b) => a - b)
  const clock = clocks[Math.floor(clocks.length / 2)]
  return [
    ...checks.map(({ provider, key, ok, detail }) =>
      finding('provider key', ok === null ? 'skipped' : ok ? 'ok' : 'failed', `${provider} ${key}: ${detail}`),
    ),
    clock === undefined
      ? finding('clock', 'skipped', 'no provider responded with its time')
      : Math.abs(clock) <= CLOCK_TOLERANCE
        ? finding('clock', 'ok', 'agrees with the providers')
        : finding(
            'clock',
            'warning',
            `differs by ${Math.round(clock / 1_000)} s from the providers; synchronise the clock`,
          ),
  ]
}

const proxies: Check = async ({ loaded }) => {
  if (!loaded.ok) return [finding('proxies', 'skipped', 'the configuration is invalid')]
  const found = await checkProxies(loaded.config)
  return found.map(({ status, detail }) => finding('proxies', status, detail))
}

const DAY = 24 * 3_600_000
/** Days before the end of a certificate from which it is reported, as the log and the alert `certExpiry` do. */
const CERTIFICATE_DAYS = 30

/** A certificate of the port, or one that a provider asks for. `read` throws if the file cannot be read. */
type UsedCertificate = { readonly file: string; readonly use: string; readonly read: () => string }

const usedCertificates = ({ settings, instances }: FullConfig, folder: string): readonly UsedCertificate[] => [
  ...settings.tls.cert.map((file) => ({
    ...{ file, use: 'of the port' },
    read: () => readFileSync(resolve(folder, file), 'utf8'),
  })),
  ...instances.flatMap(({ id, network, egress }) => {
    const client = egress?.tls.client
    if (!client) return []
    return [{ file: network?.clientCert?.cert ?? 'clientCert', use: `for ${id}`, read: () => client.cert }]
  }),
]

const certificateFinding = ({ file, use, read }: UsedCertificate): Finding => {
  const name = `${file} ${use}`
  let end: number
  try {
    end = Date.parse(new X509Certificate(read()).validTo)
  } catch {
    // The message of OpenSSL may contain a part of the file.
    return finding('certificate', 'failed', `${name} cannot be read as a certificate in PEM`)
  }
  const left = end - Date.now()
  const on = new Date(end).toISOString().slice(0, 'yyyy-mm-dd'.length)
  if (left <= 0) return finding('certificate', 'failed', `${name} ended on ${on}; replace it`)
  const days = Math.floor(left / DAY)
  const rest = days === 1 ? 'in 1 day' : `in ${days} days`
  return left > CERTIFICATE_DAYS * DAY
    ? finding('certificate', 'ok', `${name} ends on ${on}`)
    : finding('certificate', 'warning', `${name} ends ${rest}, on ${on}; replace it`)
}

const certificates: Check = ({ loaded }, { host }) =>
  loaded.ok ? usedCertificates(loaded.config, host.folder).map(certificateFinding) : []

/** What the running gateway has lost. Nothing if it does not answer this user: its state is no part of the configuration. */
const lostTelemetry = async (cli: Cli, local: Local): Promise<readonly Finding[]> => {
  if (!runningHere(local)) return []
  const gateway = await findGateway(cli, local)
  const found = await gateway?.read(TELEMETRY, '/admin/api/v1/telemetry').catch(() => null)
  return (found?.data ?? []).map(({ signal, receiver, exported, dropped, error }) => {
    const lost = Object.entries(dropped).filter(([, count]) => count > 0)
    const drops = lost.map(([why, count]) => `${count} dropped (${why})`)
    const detail = [`${receiver}: ${exported} ${signal} exported`, ...drops, ...(error === null ? [] : [error])]
    return finding('telemetry', lost.length > 0 || error !== null ? 'warning' : 'ok', detail.join('; '))
  })
}

const telemetry: Check = async (local, cli) => {
  const { loaded } = local
  if (!loaded.ok) return [finding('telemetry', 'skipped', 'the configuration is invalid')]
  const problems: string[] = []
  const options = telemetryOptions(loaded.config, cli.host.version, (problem) => problems.push(problem))
  if (problems.length > 0) return problems.map((problem) => finding('telemetry', 'failed', problem))
  const exported = await lostTelemetry(cli, local)
  if (!options?.traces) return exported
  const { sendTestSpan } = await import('../../observe/otlp/test-span.ts')
  const result = await sendTestSpan(options.traces, options)
  const { host: receiver } = new URL(options.traces.url)
  if (result.ok && result.refused === 0) return [finding('telemetry', 'ok', `${receiver} accepted a span`), ...exported]
  return [finding('telemetry', 'failed', `${receiver}: ${result.why}`), ...exported]
}

const prices: Check = ({ loaded }, { host }) => {
  if (!loaded.ok) return []
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', host.home))
  const builtin = new Set(loaded.config.instances.filter(({ provider }) => provider.builtin).map(({ id }) => id))
  const configured = new Set(
    loaded.config.instances.flatMap(({ id, models }) => models.map((model) => `${id}/${model}`)),
  )
  const book = priceBook(catalogue, loaded.config.accounts.prices)
  const unpriced = listModels(loaded.config, new Map(), catalogue).filter(({ id, owner }) => {
    const instance = loaded.config.instances.find((one) => one.id === owner)
    if (!instance || !configured.has(id) || builtin.has(owner)) return false
    const model = id.slice(owner.length + 1)
    return book.reservation({ instance, model, at: Date.now(), input: 1, output: 1 }) === null
  })
  if (unpriced.length === 0) return [finding('prices', 'ok', 'every configured model has a price')]
  return [
    finding(
      'prices',
      'warning',
      `no price is known for ${unpriced.map(({ id }) => id).join(', ')}: their cost is unknown, and a hard budget charges the dearest price of the provider or refuses them; set one with headgate prices set`,
    ),
  ]
}

/** Days before the end of a model from which it is reported. */
const SOON = 90

/** What the running gateway knows: also from lists and answers of providers, and of requests. Null: it does not answer. */
const retiringThere = async (cli: Cli, local: Local): Promise<readonly Ending[] | null> => {
  if (!runningHere(local)) return null
  const gateway = await findGateway(cli, local)
  const found = await gateway?.read(RETIRING, '/admin/api/v1/models/retiring').catch(() => null)
  return found?.data ?? null
}

/** A model that ends. `retires`: ISO 8601. */
type Ending = {
  readonly provider: string
  readonly model: string
  readonly retires: string
  readonly successor: string | null
  readonly routes: readonly string[]
  readonly teams?: readonly { readonly id: string; readonly name: string | null }[]
}

const retiringHere = ({ instances, ...config }: FullConfig, home: URL): readonly Ending[] => {
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', home))
  const ends = new Retirements({ date: Date.now })
  const found = retiringModels(
    { config: { ...config, instances }, lists: new Map(), catalogue },
    { of: (place) => ends.of(catalogue, place) },
    { until: Date.now() + SOON * DAY, used: () => [] },
  )
  return found.map(({ instance, model, retirement: { at, successor = null }, routes }) => ({
    ...{ provider: instance.id, model, successor, routes: [...routes] },
    retires: new Date(at).toISOString(),
  }))
}

const retirement: Check = async (local, cli) => {
  if (!local.loaded.ok) return []
  const found = (await retiringThere(cli, local)) ?? retiringHere(local.loaded.config, cli.host.home)
  if (found.length === 0) return [finding('models', 'ok', `no model in use is known to end within ${SOON} days`)]
  return found.map(({ provider, model, retires, successor, routes, teams = [] }) => {
    const isOver = Date.parse(retires) <= Date.now()
    const users = [
      ...(routes.length > 0 ? [`routes: ${routes.join(', ')}`] : []),
      ...(teams.length > 0 ? [`teams: ${teams.map(({ id, name }) => name ?? id).join(', ')}`] : []),
    ]
    const detail = [
      `${provider}/${model} ${isOver ? 'ended' : 'ends'} on ${retires.slice(0, 'yyyy-mm-dd'.length)}`,
      ...(successor === null ? [] : [`successor: ${successor}`]),
      ...users,
    ]
    return finding('models', 'warning', detail.join('; '))
  })
}

/** Access to models does not apply to passed calls. */
const passThrough: Check = ({ loaded }) => {
  if (!loaded.ok) return []
  const { instances, accounts } = loaded.config
  if (!instances.some((instance) => instance.passThrough)) return []
  const hasModels = new Set(accounts.teams.filter(({ access }) => access.models !== null).map(({ name }) => name))
  const limited = accounts.keys.filter(
    ({ access, team }) => (access.passThrough ?? []).length > 0 && (access.models !== null || hasModels.has(team)),
  )
  if (limited.length === 0)
    return [finding('pass-through', 'ok', 'no key of the file that passes calls is limited to models')]
  const names = limited.map(({ name }) => name).join(', ')
  return [
    finding(
      'pass-through',
      'warning',
      `access.models of ${names} does not apply to passed calls, which can name any model: allow only the paths that are needed (passThrough.paths)`,
    ),
  ]
}

const CHECKS: readonly Check[] = [
  node,
  configuration,
  port,
  dataFolder,
  fileModes,
  databases,
  sharedSchemas,
  providers,
  proxies,
  certificates,
  telemetry,
  prices,
  retirement,
  passThrough,
]

export const define: DefineVerb = (command, cli) => {
  command
    .option('--fix', 'remove the access of other users from files with secrets')
    .addHelpText(
      'after',
      "\nFetches each provider's model list to check its keys, which is free of charge, connects once through each proxy, and sends one span to the receiver of telemetry.\n\nExample: headgate doctor",
    )
    .action(async ({ fix }: { fix?: true }) => {
      const { answer, exit, paint } = cli()
      const local = await readLocal(cli().host)
      const found = (await Promise.all(CHECKS.map((check) => check(local, cli(), fix === true)))).flat()
      if (!local.loaded.ok) exit(EXIT.invalidConfig)
      else if (found.some(({ status }) => status === 'failed')) exit(EXIT.failed)
      const paints = { ok: paint.good, warning: paint.warn, failed: paint.bad, skipped: paint.dim }
      answer({ object: 'list', data: found }, () =>
        table(
          ['CHECK', 'RESULT', 'DETAIL'],
          found.map(({ check, status, detail }) => [check, { text: status, paint: paints[status] }, detail]),
          cli(),
        ),
      )
    })
}
