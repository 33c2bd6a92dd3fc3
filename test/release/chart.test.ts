/**
 * The Helm chart: rendered with each set of values in `ci`, checked with the schemas of Kubernetes, and compared with what
 * the gateway reads and serves.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse, parseAllDocuments } from 'yaml'
import { CHART, generatedFiles } from '../../scripts/pages/chart.ts'
import { isObject, type Json, type JsonObject, object } from '../../src/core/json.ts'
import { blocksOf } from '../docs/support.ts'
import { start } from '../e2e/support/process.ts'
import { verb } from '../e2e/support/verb.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { checkerOf } from './support/kubernetes.ts'
import { SCHEMAS, skipWithout, toolPath } from './support/tools.ts'

const VERSIONS = ['v1.31.14', 'v1.37.2'] as const
const NEWEST = VERSIONS[1]
const SNAPSHOT = join(import.meta.dirname, 'chart.default.yaml')
const SETS = globSync('ci/*.yaml', { cwd: CHART }).sort()
const read = (file: string): string => readFileSync(join(CHART, file), 'utf8')

type Rendered = { readonly status: number | null; readonly stdout: string; readonly stderr: string }

const helm = (...words: readonly string[]): Rendered =>
  spawnSync(toolPath('helm'), words, { encoding: 'utf8', timeout: 60_000 })

type RenderOptions = {
  readonly version?: string
  readonly set?: string
  readonly values?: Json
  readonly name?: string
}

/** Renders the chart as `helm install` would, with a file of values and then with single ones. */
const template = ({ version = NEWEST, set, values = {}, name = 'headgate' }: RenderOptions): Rendered =>
  spawnSync(
    toolPath('helm'),
    [
      ...['template', name, CHART, '--namespace', 'ai', '--kube-version', version],
      ...(set === undefined ? [] : ['--values', join(CHART, set)]),
      ...['--values', '-'],
    ],
    { encoding: 'utf8', timeout: 60_000, input: JSON.stringify(values) },
  )

const documentsOf = (options: RenderOptions): readonly JsonObject[] => {
  const { status, stdout, stderr } = template(options)
  assert.equal(status, 0, stderr)
  assert.equal(stderr, '')
  return parseAllDocuments(stdout).flatMap((document) => {
    assert.deepEqual(document.errors, [])
    const value: unknown = document.toJS()
    return isObject(value) ? [value] : []
  })
}

// biome-ignore lint/suspicious/noExplicitAny: the tests read objects of every kind
const find = (documents: readonly JsonObject[], kind: string): any => documents.find((each) => each.kind === kind)

/** What `helm install` prints. It asks a cluster, so a copy of the chart has the notes as an object. */
const notesOf = (values: Json): string => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-notes-'))
  try {
    cpSync(CHART, folder, { recursive: true })
    const notes = readFileSync(join(folder, 'templates', 'NOTES.txt'), 'utf8')
    const object = `{{ define "notes" }}${notes}{{ end }}notes: {{ include "notes" . | quote }}\n`
    writeFileSync(join(folder, 'templates', 'notes.yaml'), object)
    const only = ['--show-only', 'templates/notes.yaml']
    const words = ['template', 'headgate', folder, '--kube-version', NEWEST, ...only, '--values', '-']
    const input = JSON.stringify(values)
    const { status, stdout, stderr } = spawnSync(toolPath('helm'), words, { encoding: 'utf8', timeout: 60_000, input })
    assert.equal(status, 0, stderr)
    return String(parse(stdout).notes)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

test('chart: generated files are current', () => {
  for (const [file, text] of Object.entries(generatedFiles())) assert.equal(read(file), text, `${file}: npm run chart`)
})

test('chart: has the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', 'package.json'), 'utf8'))
  const chart = parse(read('Chart.yaml'))
  assert.deepEqual([chart.version, chart.appVersion], [version, version])
})

/** Paths of members; below a member without `properties` users choose names. */
const pathsOf = (schema: JsonObject, values: Json | undefined, path: string): readonly (readonly [string, boolean])[] =>
  Object.entries(object(schema.properties) ?? {}).flatMap(([name, member]) => {
    const value = object(values)?.[name]
    const own = [[`${path}${name}`, value !== undefined] as const]
    return isObject(member) && isObject(member.properties) ? pathsOf(member, value, `${path}${name}.`) : own
  })

test('chart: each value of the schema has a default, and every set of values is used', () => {
  const schema = JSON.parse(read('values.schema.json'))
  const without = pathsOf(schema, parse(read('values.yaml')), '').filter(([, has]) => !has)
  assert.deepEqual(without, [['global', false]])
  assert.ok(SETS.length > 4)
})

describe('chart: with helm', { skip: skipWithout('helm', SCHEMAS) }, () => {
  for (const set of SETS)
    test(`${set}: passes lint and is valid for Kubernetes`, () => {
      const { status, stdout, stderr } = helm('lint', '--strict', CHART, '--values', join(CHART, set))
      assert.equal(status, 0, stdout + stderr)
      for (const version of VERSIONS) {
        const check = checkerOf(version)
        const documents = documentsOf({ version, set })
        assert.ok(documents.length >= 4)
        for (const document of documents) assert.deepEqual(check(document), [], `${version} ${String(document.kind)}`)
      }
    })

  test('the sets render every template, and the check refuses wrong objects', () => {
    const all = SETS.flatMap((set) => documentsOf({ set }))
    const kinds = [...new Set(all.map(({ kind }) => kind))].sort()
    assert.deepEqual(kinds, [
      ...['ConfigMap', 'HTTPRoute', 'HorizontalPodAutoscaler', 'Ingress', 'Job', 'NetworkPolicy', 'Pod'],
      ...[
        'PodDisruptionBudget',
        'PrometheusRule',
        'Secret',
        'Service',
        'ServiceAccount',
        'ServiceMonitor',
        'StatefulSet',
      ],
    ])
    const check = checkerOf(NEWEST)
    const workload = structuredClone(find(all, 'StatefulSet'))
    workload.spec.replicas = '2'
    workload.spec.template.spec.containers[0].imagePullpolicy = 'Always'
    const problems = check(workload)
    assert.equal(problems.length, 2, problems.join('\n'))
    assert.ok(problems.some((problem) => problem.includes('imagePullpolicy')))
    const monitor = structuredClone(find(all, 'ServiceMonitor'))
    monitor.spec.endpoints[0].intervall = '30s'
    assert.equal(check(monitor).length, 1)
    for (const kind of ['Job', 'HorizontalPodAutoscaler']) {
      const other = structuredClone(find(all, kind))
      other.spec.unknown = 1
      assert.equal(check(other).length, 1, kind)
    }
  })

  test('the default set renders as before', () => {
    const { stdout } = template({ set: 'ci/default.yaml' })
    const update = `helm template headgate deploy/helm/headgate -n ai --kube-version ${NEWEST} -f deploy/helm/headgate/ci/default.yaml > ${SNAPSHOT}`
    assert.equal(stdout, readFileSync(SNAPSHOT, 'utf8'), update)
  })

  test('the configuration arrives unchanged, and the gateway accepts it', async () => {
    const { config } = parse(read('ci/full.yaml'))
    const { data } = find(documentsOf({ set: 'ci/full.yaml' }), 'ConfigMap')
    assert.equal(data['headgate.yaml'], config)
    await using gateway = await start({
      env: { OPENAI_API_KEY: 'sk-0123456789' },
      files: { 'headgate.yaml': data['headgate.yaml'] },
    })
    const env = { OPENAI_API_KEY: 'sk-0123456789' }
    const { code, stdout } = await verb(['config', 'check', join(gateway.folder, 'headgate.yaml')], { env })
    assert.equal(code, 0, stdout)
  })

  test("the gateway starts with the pod's variables and answers its probes", async () => {
    const { spec } = find(documentsOf({ set: 'ci/default.yaml' }), 'StatefulSet').spec.template
    const [container] = spec.containers
    const env = Object.fromEntries(
      container.env.map(({ name, value }: { name: string; value: string }) => [name, value]),
    )
    // What differs here: the port, the folder and the number of processes that a busy machine should start.
    const local = {
      PORT: '0',
      DATA_DIR: 'data',
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      OPENAI_API_KEY: 'sk-0123456789',
    }
    assert.deepEqual(
      [env.PORT, env.DATA_DIR],
      [String(container.ports[0].containerPort), container.volumeMounts[0].mountPath],
    )
    await using gateway = await start({ env: { ...env, ...local, DRAIN_DELAY: '0' } })
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
      assert.equal((await fetch(gateway.url + container[probe].httpGet.path)).status, 200, probe)
    const { spec: pod } = find(documentsOf({ set: 'ci/default.yaml' }), 'Pod')
    const words = pod.containers[0].args.map((word: string) => (word === 'http://headgate:80' ? gateway.url : word))
    assert.ok(words.includes(gateway.url))
    assert.equal((await verb(words)).code, 0)
  })

  test('the stores are in the variables of the pods, and a job upgrades the tables before they start', () => {
    const documents = documentsOf({ set: 'ci/scale.yaml' })
    const { replicas, template: pods } = find(documents, 'StatefulSet').spec
    // The autoscaler sets it.
    assert.equal(replicas, undefined)
    const ref = (name: string, key: string) => ({ secretKeyRef: { name, key } })
    const [{ env }] = pods.spec.containers
    const variable = (name: string) => env.find((each: { name: string }) => each.name === name)
    assert.deepEqual(variable('DATABASE_URL').valueFrom, ref('headgate-postgres', 'uri'))
    assert.deepEqual(variable('REDIS_URL').valueFrom, ref('headgate-valkey', 'REDIS_URL'))
    assert.equal(variable('DATABASE_MIGRATE').value, 'never')
    const { metadata, spec } = find(documents, 'Job')
    assert.equal(metadata.annotations['helm.sh/hook'], 'pre-install,pre-upgrade')
    const [job] = spec.template.spec.containers
    assert.deepEqual(job.args.slice(0, 2), ['db', 'migrate'])
    assert.equal(job.image, pods.spec.containers[0].image)
    assert.deepEqual(job.env, [{ name: 'DATABASE_URL', valueFrom: ref('headgate-postgres', 'uri') }])
    // The Service must not send requests to the job, and nothing that the chart creates exists before it.
    const { selector } = find(documents, 'Service').spec
    assert.notEqual(spec.template.metadata.labels['app.kubernetes.io/name'], selector['app.kubernetes.io/name'])
    assert.equal(spec.template.spec.serviceAccountName, undefined)
    const { egress } = find(documents, 'NetworkPolicy').spec
    const ports = egress.flatMap(({ ports = [] }: { ports?: { port: number }[] }) => ports.map(({ port }) => port))
    assert.deepEqual(ports.slice(-2), [5432, 6379])
  })

  test('pods of the chart are ready after its job, and not before', { skip: skipPostgres }, async () => {
    const documents = documentsOf({ set: 'ci/scale.yaml' })
    const [container] = find(documents, 'StatefulSet').spec.template.spec.containers
    const [job] = find(documents, 'Job').spec.template.spec.containers
    const postgres = await startPostgres()
    try {
      const named: readonly { name: string; value?: string }[] = container.env
      const values = named.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]))
      const local = { PORT: '0', DATA_DIR: 'data', DRAIN_DELAY: '0', AUTH_ADMIN: 'admin-canary-0123456789ab' }
      const env = { ...Object.fromEntries(values), ...local, DATABASE_URL: postgres.url }
      await using gateway = await start({ env })
      const isReady = async () => (await fetch(`${gateway.url}/health/ready`)).status === 200
      assert.equal(await isReady(), false)
      const { code, stderr } = await verb(job.args, { env: { DATABASE_URL: postgres.url } })
      assert.equal(code, 0, stderr)
      for (const end = performance.now() + 120_000; !(await isReady()); await sleep(100))
        assert.ok(performance.now() < end, gateway.output())
    } finally {
      await postgres.remove()
    }
  })

  test('without the hook there is no job, and only `auto` lets the pods upgrade the tables', () => {
    for (const [migrate, expected] of [
      ['auto', 'auto'],
      ['never', 'never'],
    ]) {
      const documents = documentsOf({
        values: { replicas: 2, database: { existingSecret: 'a', migrate: migrate ?? '' } },
      })
      assert.equal(find(documents, 'Job'), undefined)
      const { env } = find(documents, 'StatefulSet').spec.template.spec.containers[0]
      assert.equal(env.find(({ name }: { name: string }) => name === 'DATABASE_MIGRATE').value, expected)
    }
    const names = find(documentsOf({ set: 'ci/default.yaml' }), 'StatefulSet').spec.template.spec.containers[0].env
    assert.ok(!names.some(({ name }: { name: string }) => /^(?:DATABASE|REDIS)_/.test(name)))
  })

  test('the values in the page about Kubernetes are accepted', () => {
    const blocks = blocksOf('yaml').filter(({ page, info }) => page.endsWith('kubernetes.md') && info[1] === 'values')
    assert.ok(blocks.length > 0)
    for (const { text } of blocks) documentsOf({ set: 'ci/scale.yaml', values: parse(text) })
  })

  test('the autoscaler counts CPU time, or a metric that the gateway has', () => {
    const metricOf = (set: string) => find(documentsOf({ set }), 'HorizontalPodAutoscaler').spec.metrics
    assert.equal(metricOf('ci/scale.yaml')[0].resource.name, 'cpu')
    const [{ pods }] = metricOf('ci/scale-in-flight.yaml')
    const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'metrics.md'), 'utf8')
    assert.ok(page.includes(`| \`${pods.metric.name}\` | gauge |`), pods.metric.name)
  })

  for (const [what, values, own, limits] of [
    ['one replica', {}, false, false],
    ['replicas that share nothing', { replicas: 2, independentReplicas: true }, true, true],
    ['replicas with a database only', { replicas: 2, database: { existingSecret: 'a' } }, false, true],
    [
      'replicas with both stores',
      { replicas: 2, database: { existingSecret: 'a' }, redis: { existingSecret: 'b' } },
      false,
      false,
    ],
  ] as const)
    test(`the notes say what each pod counts alone: ${what}`, () => {
      const notes = notesOf({ secrets: { existing: 'keys' }, ...values })
      assert.equal(/without a database/.test(notes), own, notes)
      assert.equal(/Limits and budgets count in each pod/.test(notes), limits, notes)
    })

  test('a pod has the time of its drain, and to close what it has, also with workers', () => {
    for (const set of SETS) {
      const { spec } = find(documentsOf({ set }), 'StatefulSet').spec.template
      const ms = (wanted: string) =>
        Number(spec.containers[0].env.find(({ name }: { name: string }) => name === wanted).value)
      assert.ok(spec.terminationGracePeriodSeconds * 1000 >= ms('DRAIN_DELAY') + ms('DRAIN_TIMEOUT') + 15_000, set)
    }
  })

  test('every container is confined', () => {
    for (const { spec, kind } of SETS.flatMap((set) => documentsOf({ set }))) {
      // biome-ignore lint/suspicious/noExplicitAny: a pod, or what contains one
      const pod: any = kind === 'Pod' ? spec : (spec as any)?.template?.spec
      if (pod === undefined) continue
      assert.equal(pod.automountServiceAccountToken, false)
      assert.equal(pod.securityContext.runAsNonRoot, true)
      assert.equal(pod.securityContext.seccompProfile.type, 'RuntimeDefault')
      for (const { securityContext } of pod.containers)
        assert.deepEqual(securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
    }
  })

  test('secrets are quoted, and a changed one restarts the pods', () => {
    const secret = 'a: "b" \'c\' # d\n{{ e }}'
    const withKey = (key: string) => documentsOf({ values: { secrets: { values: { AUTH_ADMIN: key } } } })
    const documents = withKey(secret)
    assert.equal(find(documents, 'Secret').stringData.AUTH_ADMIN, secret)
    const mark = (each: readonly JsonObject[]) => find(each, 'StatefulSet').spec.template.metadata.annotations
    assert.notDeepEqual(mark(documents), mark(withKey('other')))
  })

  test('names stay within 63 characters, however long the release', () => {
    for (const document of documentsOf({ name: 'r'.repeat(53), set: 'ci/full.yaml' })) {
      const { name } = object(document.metadata) ?? {}
      // The controller appends a dash and ten characters for a label.
      assert.ok(String(name).length <= (document.kind === 'StatefulSet' ? 52 : 63), String(name))
    }
  })

  for (const [what, values, message] of [
    ['several replicas that share nothing', { replicas: 2 }, /replicas: without a database each replica has its own/],
    [
      'an autoscaler without a database',
      { autoscaling: { enabled: true }, independentReplicas: true },
      /autoscaling: it needs a database/,
    ],
    [
      'fewer pods at most than at least',
      { autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 2 }, database: { existingSecret: 'a' } },
      /autoscaling: maxReplicas is less than minReplicas/,
    ],
    ['a database in plain text', { env: { DATABASE_URL: 'postgres://a:b@c/d' } }, /DATABASE_URL/],
    ['two sources of secrets', { secrets: { existing: 'a', values: { B: 'c' } } }, /secrets: set existing or values/],
    [
      'scrapes without a token',
      { serviceMonitor: { enabled: true } },
      /serviceMonitor: \/metrics needs the admin token/,
    ],
    ['an ingress without a host', { ingress: { enabled: true } }, /ingress: set at least one host/],
    ['a route without a gateway', { httpRoute: { enabled: true } }, /httpRoute: set the gateway/],
    ['an unknown value', { replicaCount: 2 }, /replicaCount/],
    ['a variable that the chart sets', { env: { PORT: '80' } }, /PORT/],
    ['configuration that is a map', { config: { routes: {} } }, /config/],
  ] as const)
    test(`refuses ${what}`, () => {
      const { status, stderr } = template({ values })
      assert.equal(status, 1)
      assert.match(stderr, message)
    })
})
