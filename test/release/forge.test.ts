/**
 * The files of the forge: workflows only call scripts that exist, actions are pinned, permissions are minimal; the linters
 * of workflows and shell scripts find nothing.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { linterPath, SCHEMAS, skipWithout, skipWithoutLinter, toolPath } from './support/tools.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const { scripts, version } = JSON.parse(read('package.json'))
const WORKFLOWS = globSync('.github/workflows/*.yml', { cwd: ROOT }).sort()
const isCi = process.env.HEADGATE_CI === '1'

type Step = { readonly uses?: string; readonly run?: string; readonly with?: Readonly<Record<string, unknown>> }
type Job = {
  readonly steps: readonly Step[]
  readonly permissions?: Readonly<Record<string, string>>
  readonly 'timeout-minutes'?: number
  readonly environment?: string
}
type Workflow = {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions: unknown
  readonly jobs: Readonly<Record<string, Job>>
}
// The test checks the members that it reads.
const workflowOf = (file: string): Workflow => parse(read(file)) as Workflow

/** Why a command of a job does not exist here, or null. */
const problemOf = (command: string): string | null => {
  if (command.includes('\n') || /[|;&]/.test(command)) return 'a workflow contains no logic: put it into a script'
  const [program = '', ...words] = command.split(/\s+/)
  if (program === 'npm') {
    const name = words.filter((word) => word !== 'run' && word !== '--silent')[0] ?? ''
    return Object.hasOwn(scripts, name) ? null : `package.json has no script "${name}"`
  }
  if (!existsSync(join(ROOT, program))) return `${program} does not exist`
  accessSync(join(ROOT, program), constants.X_OK)
  const [part = ''] = words
  return new RegExp(`^ +(?:\\w+ \\| )*${part}(?: \\| \\w+)*\\)`, 'm').test(read(program))
    ? null
    : `${program} has no part "${part}"`
}

test('forge: the check of commands refuses what does not exist', () => {
  assert.equal(problemOf('.ci/run quick'), null)
  assert.equal(problemOf('npm run --silent audit-packages'), null)
  for (const wrong of ['.ci/run slow', '.ci/no all', 'npm run --silent no-script', '.ci/run all && echo done'])
    assert.notEqual(problemOf(wrong), null, wrong)
})

for (const file of WORKFLOWS)
  test(`forge: ${file} calls existing scripts with pinned actions and few permissions`, () => {
    const { on, permissions, jobs } = workflowOf(file)
    assert.deepEqual(permissions, {})
    assert.ok(!('pull_request_target' in on) && !('workflow_run' in on))
    if ('pull_request' in on) assert.ok(!read(file).includes('secrets.'), 'pull requests see no secret')
    for (const [name, job] of Object.entries(jobs)) {
      assert.ok(job['timeout-minutes'] !== undefined && job.permissions !== undefined, name)
      const writes = Object.values(job.permissions).includes('write')
      const isProtected = ['release', 'edge'].includes(job.environment ?? '')
      if (writes) assert.ok(isProtected || file.endsWith('scan.yml'), `${name} may write`)
      for (const { uses, run, with: inputs } of job.steps) {
        if (run !== undefined) assert.equal(problemOf(run), null, `${name}: ${run}`)
        if (uses?.startsWith('actions/checkout@')) assert.equal(inputs?.['persist-credentials'], false, name)
      }
    }
    const used = [...read(file).matchAll(/^ *-? *uses: (.*)$/gm)].map(([, action]) => action ?? '')
    assert.ok(used.length > 0)
    for (const action of used) assert.match(action, /^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })

test('forge: an action has the same commit everywhere', () => {
  const commits = new Map<string, Set<string>>()
  for (const file of WORKFLOWS)
    for (const [, name = '', commit = ''] of read(file).matchAll(/uses: ([\w-]+\/[\w-]+)\S*@(\S+ # \S+)/g))
      commits.set(name, (commits.get(name) ?? new Set()).add(commit))
  assert.deepEqual(
    [...commits].filter(([, each]) => each.size > 1),
    [],
  )
})

test('forge: forms for issues have a name, a description and distinct fields', () => {
  const forms = globSync('.github/ISSUE_TEMPLATE/*.yml', { cwd: ROOT }).filter((file) => !file.endsWith('/config.yml'))
  assert.ok(forms.length >= 5)
  for (const file of forms) {
    const { name, description, body } = parse(read(file))
    assert.ok(name && description, file)
    const fields = body.filter(({ type }: { type: string }) => type !== 'markdown')
    const ids = fields.map(({ id }: { id: string }) => id)
    assert.equal(new Set(ids).size, ids.length, file)
    for (const { id, attributes } of fields) assert.ok(id && attributes.label, file)
  }
  const { blank_issues_enabled, contact_links } = parse(read('.github/ISSUE_TEMPLATE/config.yml'))
  assert.equal(blank_issues_enabled, false)
  for (const { url } of contact_links) assert.match(url, /^https:/)
})

const finds = (program: string, words: readonly string[]): void => {
  const { status, stdout, stderr } = spawnSync(program, words, { cwd: ROOT, encoding: 'utf8', timeout: 120_000 })
  assert.equal(status, 0, stdout + stderr)
}

test('forge: actionlint accepts the workflows', { skip: skipWithout('actionlint') }, () =>
  finds(toolPath('actionlint'), WORKFLOWS),
)

test('forge: zizmor finds nothing', { skip: skipWithoutLinter('zizmor') }, () =>
  finds(linterPath('zizmor'), ['--offline', '--no-progress', '.github']),
)

test('forge: shellcheck finds nothing in any script', {
  skip: spawnSync('shellcheck', ['--version']).error && !isCi ? 'shellcheck is missing' : false,
}, () => {
  const files = globSync(['.ci/*', '{bench,deploy,examples,scripts,test,tools}/**/*'], {
    cwd: ROOT,
    exclude: (path) => path.includes('node_modules'),
  })
  const isScript = (file: string) =>
    /^(?:\.ci\/[^.]+|[^.]+|.*\.sh)$/.test(file.slice(file.lastIndexOf('/') + 1)) &&
    /^#!\/(?:usr\/bin\/env )?(?:\w+\/)*(?:ba)?sh\b/.test(startOf(file))
  const found = files.filter(isScript)
  assert.ok(
    ['.ci/run', '.ci/tools', '.ci/release'].every((file) => found.includes(file)),
    found.join(),
  )
  finds('shellcheck', found)
})

const startOf = (file: string): string => {
  try {
    return read(file)
  } catch {
    return ''
  }
}

test('forge: a release is built from a tag that fits', {
  skip: skipWithout('helm', SCHEMAS),
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-artefacts-'))
  try {
    const run = (...words: readonly string[]) =>
      spawnSync(join(ROOT, '.ci', 'release'), words, { cwd: ROOT, encoding: 'utf8', timeout: 300_000 })
    assert.match(
      run('check', 'v99.0.0').stderr,
      new RegExp(`the tag is v99.0.0, and package.json has the version ${version}`),
    )
    const built = run('build', folder)
    assert.equal(built.status, 0, built.stderr)
    const files = globSync('*', { cwd: folder }).sort()
    const chart = `headgate-chart-${version}.tgz`
    const expected = [`headgate-${version}.tgz`, chart, `headgate-docs-${version}.tar.gz`, 'sbom.cdx.json']
    assert.deepEqual(files, expected.sort())
    finds(toolPath('helm'), ['lint', '--strict', join(folder, chart)])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
