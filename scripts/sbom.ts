/**
 * The software bills of materials of the npm package (`npm run -s sbom`) and of the image, CycloneDX 1.6, from the lockfiles.
 * They have no time and no random number, so equal lockfiles give equal bytes.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { object, parseJson, text } from '../src/core/json.ts'
import { OPTIONAL, PACKAGES } from './build.ts'
import { closureOf, type Locked, purlOf, refOf } from './locked.ts'

const ROOT = join(import.meta.dirname, '..')

/** How the package uses a component: as part of its files, as a dependency, or as one that users install if they need it. */
/** `unused`: a clone has it installed, and nothing of it is part of the bundle. */
type Use = 'bundled' | 'dependency' | 'optional' | 'unused'

type Component = {
  readonly type: 'library'
  readonly 'bom-ref': string
  readonly group?: string
  readonly name: string
  readonly version: string
  readonly scope: 'required' | 'optional' | 'excluded'
  readonly hashes: readonly { readonly alg: 'SHA-512'; readonly content: string }[]
  readonly licenses: readonly ({ readonly license: { readonly id: string } } | { readonly expression: string })[]
  readonly purl: string
  readonly properties: readonly { readonly name: 'headgate:use'; readonly value: Use }[]
}
type Node = { readonly ref: string; readonly dependsOn: readonly string[] }

/** As CycloneDX names them. */
const SCOPES = { bundled: 'required', dependency: 'required', optional: 'optional', unused: 'excluded' } as const

const componentOf = (locked: Locked, use: Use): Component => {
  const { name, entry } = locked
  const [group, short] = name.startsWith('@') ? name.split('/') : [undefined, name]
  const licence = text(entry.license) ?? ''
  const digest = (text(entry.integrity) ?? '').replace('sha512-', '')
  return {
    type: 'library',
    'bom-ref': refOf(locked),
    ...(group !== undefined && { group }),
    name: short ?? name,
    version: text(entry.version) ?? '',
    scope: SCOPES[use],
    hashes: [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }],
    licenses: [/[ (]/.test(licence) ? { expression: licence } : { license: { id: licence } }],
    purl: refOf(locked),
    properties: [{ name: 'headgate:use', value: use }],
  }
}

const dependenciesIn = (manifest: string): readonly string[] =>
  Object.keys(object(object(parseJson(readFileSync(join(ROOT, manifest), 'utf8')))?.dependencies) ?? {})

/** The package of the dashboard's manifest that builds it, and is no part of the pages. */
const BUILDER = 'rolldown'

/** Dependencies of bundled packages of which the bundle has nothing: only their types, or code that is not called, is named. */
const UNBUNDLED = ['resources', 'sdk-logs', 'sdk-trace', 'semantic-conventions'].map((name) => `@opentelemetry/${name}`)

const isUnbundled = (ref: string): boolean => UNBUNDLED.some((name) => ref.startsWith(purlOf(name, '')))

/** Packages of a lockfile with the same use. */
type Part = readonly [use: Use, lockfile: string, names: readonly string[]]

/** The parts of the npm package. What several of them need has the use of the first. */
const packageParts = (): readonly Part[] => {
  const own = dependenciesIn('package.json')
  return [
    ['bundled', 'package-lock.json', own.filter((each) => !PACKAGES.includes(each))],
    [
      'bundled',
      'dashboard/package-lock.json',
      dependenciesIn('dashboard/package.json').filter((each) => each !== BUILDER),
    ],
    ['dependency', 'package-lock.json', PACKAGES.filter((each) => !OPTIONAL.has(each))],
    ['optional', 'package-lock.json', [...OPTIONAL]],
  ]
}

/** What is no package of npm: the base of the image, or the packages of which it is made. */
export type OtherComponent = {
  readonly type: 'container' | 'library'
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly purl: string
}

/** A bill of materials of these parts and components. */
const billOf = <Other extends OtherComponent>(parts: readonly Part[], others: readonly Other[]) => {
  const { name, version, description, license } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const components = new Map<string, Component | Other>(others.map((other) => [other.purl, other]))
  const nodes = new Map<string, Node>(others.map(({ purl }) => [purl, { ref: purl, dependsOn: [] }]))
  const direct = new Set<string>(others.map(({ purl }) => purl))
  for (const [use, lockfile, names] of parts)
    for (const locked of closureOf(lockfile, names)) {
      const ref = refOf(locked)
      if (names.includes(locked.name)) direct.add(ref)
      if (components.has(ref)) continue
      components.set(ref, componentOf(locked, isUnbundled(ref) ? 'unused' : use))
      nodes.set(ref, { ref, dependsOn: [...locked.dependsOn].sort() })
    }
  const self = purlOf(name, version)
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      lifecycles: [{ phase: 'build' }],
      component: {
        type: 'application',
        'bom-ref': self,
        name,
        version,
        description,
        licenses: [{ license: { id: license } }],
        purl: self,
      },
    },
    components: [...components.keys()].sort().map((ref) => components.get(ref)),
    dependencies: [
      { ref: self, dependsOn: [...direct].sort() },
      ...[...nodes.keys()].sort().map((ref) => nodes.get(ref)),
    ],
  }
}

const textOf = (bill: object): string => `${JSON.stringify(bill, null, 2)}\n`

/** The bill of materials of the npm package. */
export const sbom = () => billOf<never>(packageParts(), [])

/** Its text, as it is in the package. */
export const sbomText = (): string => textOf(sbom())

/** The base that deploy/image/Dockerfile names. Its publisher has the bill of what it contains. */
const publishedBase = (): OtherComponent => {
  const dockerfile = readFileSync(join(ROOT, 'deploy', 'image', 'Dockerfile'), 'utf8')
  const [, image = '', tag = ''] = /^ARG BASE=(\S+):(\S+)$/m.exec(dockerfile) ?? []
  const purl = `pkg:oci/${image.slice(image.lastIndexOf('/') + 1)}?repository_url=${image}&tag=${tag}`
  return { type: 'container', 'bom-ref': purl, name: image, version: tag, purl }
}

/** A package of Debian whose files are in a base that is made on this machine. */
export const debianComponent = (name: string, version: string): OtherComponent => {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}`
  return { type: 'library', 'bom-ref': purl, name, version, purl }
}

/** The bill of materials of the image: Node, the npm package with the libraries for cloud sign-ins, and the base. */
export const imageSbom = (arch: string, base: readonly OtherComponent[] = [publishedBase()]) =>
  billOf([...packageParts(), ['dependency', 'tools/node/package-lock.json', [`node-linux-${arch}`]]], base)

/** Its text, as it is beside the Dockerfile. */
export const imageSbomText = (...of: Parameters<typeof imageSbom>): string => textOf(imageSbom(...of))

if (import.meta.main) process.stdout.write(sbomText())
