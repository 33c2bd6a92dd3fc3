/** The bill of materials: valid CycloneDX, and the packages that are installed. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { debianComponent, imageSbom, sbom } from '../../scripts/sbom.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const SCHEMAS = fileURLToPath(new URL('res/schema', import.meta.resolve('@cyclonedx/cyclonedx-library/package.json')))
const schema = (name: string) => JSON.parse(readFileSync(join(SCHEMAS, `${name}.SNAPSHOT.schema.json`), 'utf8'))

const bill: ReturnType<typeof sbom> = JSON.parse(JSON.stringify(sbom()))
const components = bill.components.flatMap((each) => each ?? [])

test('sbom: is valid CycloneDX 1.6', () => {
  const ajv = new Ajv({ strict: false, validateFormats: false })
  for (const name of ['spdx', 'jsf-0.82'])
    ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
  const check = ajv.compile(schema('bom-1.6'))
  for (const each of [bill, imageSbom('x64'), imageSbom('arm64', [debianComponent('libc6', '2.36-9+deb12u10')])])
    assert.ok(check(JSON.parse(JSON.stringify(each))), ajv.errorsText(check.errors))
  const wrong = structuredClone(bill.components[0])
  assert.equal(check({ ...bill, components: [{ ...wrong, hashes: [{ alg: 'SHA-512', content: 'x' }] }] }), false)
  assert.equal(check({ ...bill, components: [{ ...wrong, licenses: [{ license: { id: 'Apache' } }] }] }), false)
})

test('sbom: names each installed package once, with its version', () => {
  type Tree = { readonly dependencies?: Readonly<Record<string, Tree & { readonly version?: string }>> }
  const namesIn = ({ dependencies = {} }: Tree): readonly string[] =>
    Object.entries(dependencies).flatMap(([name, each]) =>
      each.version === undefined ? [] : [`${name}@${each.version}`, ...namesIn(each)],
    )
  const listed = execFileSync('npm', ['ls', '--omit=dev', '--all', '--json'], {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 60_000,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const installed = new Set(namesIn(JSON.parse(listed)))
  const lock: { readonly packages: Readonly<Record<string, { readonly version: string }>> } = JSON.parse(
    readFileSync(join(ROOT, 'dashboard', 'package-lock.json'), 'utf8'),
  )
  const named = components.map(({ group, name, version }) => `${group ? `${group}/` : ''}${name}@${version}`)
  assert.equal(new Set(named).size, named.length)
  // The pages of the dashboard have a lockfile of their own; the other components are those of npm.
  const others = named.filter((each) => !installed.has(each))
  for (const each of others) {
    const at = each.lastIndexOf('@')
    assert.equal(lock.packages[`node_modules/${each.slice(0, at)}`]?.version, each.slice(at + 1), each)
  }
  assert.ok(others.some((each) => each.startsWith('preact@')))
  assert.deepEqual(
    [...installed].filter((each) => !named.includes(each)),
    [],
  )
})

test('sbom: dependencies refer to components, and every component is reached', () => {
  const nodes = new Map(bill.dependencies.map((each) => [each?.ref, each?.dependsOn ?? []]))
  const reached = new Set<string>()
  const visit = (ref: string): void => {
    if (reached.has(ref)) return
    reached.add(ref)
    nodes.get(ref)?.forEach(visit)
  }
  visit(bill.metadata.component['bom-ref'])
  assert.deepEqual(
    [...reached].sort(),
    [bill.metadata.component['bom-ref'], ...components.map(({ purl }) => purl)].sort(),
  )
})

test('sbom: names neither a time nor a place', () => {
  const text = JSON.stringify(bill)
  assert.doesNotMatch(text, /20\d\d-\d\d-\d\d|timestamp|serialNumber/)
  assert.ok(!text.includes(ROOT))
  for (const { hashes } of components) assert.match(hashes[0]?.content ?? '', /^[0-9a-f]{128}$/)
})
