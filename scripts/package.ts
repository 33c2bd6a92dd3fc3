/**
 * Packs what users install: `npm run package` writes `headgate-<version>.tgz` into the current folder. The manifest is not
 * the repository's: what the bundle contains is no dependency, and the libraries for cloud sign-ins are optional, because
 * most installations need none of their 24 MB.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { build, OPTIONAL, PACKAGES } from './build.ts'
import { sbomText } from './sbom.ts'

const ROOT = join(import.meta.dirname, '..')

/** Files and folders of the package beside `dist`. */
const FILES = [
  'bin',
  'data',
  'docs',
  'headgate.schema.json',
  'llms.txt',
  'README.md',
  'LICENSE',
  'SECURITY.md',
  'CHANGELOG.md',
] as const

/** Pictures of pages, which the gateway replaces by their description: they are larger than all pages together. */
const PICTURES = join(ROOT, 'docs', 'images')

type Manifest = {
  readonly name: string
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
} & Readonly<Record<string, unknown>>

const repositoryManifest = (): Manifest => JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

/** The published manifest. Versions are those of the lockfile, which `package.json` states exactly. */
export const publishedManifest = (): Manifest & { readonly peerDependencies: Readonly<Record<string, string>> } => {
  const { name, version, description, license, repository, type, engines, bin, dependencies } = repositoryManifest()
  const versionsOf = (optional: boolean) =>
    Object.fromEntries(
      PACKAGES.filter((one) => OPTIONAL.has(one) === optional).map((one) => {
        const pinned = dependencies[one]
        if (pinned === undefined) throw new Error(`${one} is no dependency of the repository`)
        return [one, pinned]
      }),
    )
  return {
    name,
    version,
    description,
    license,
    repository,
    type,
    engines,
    bin,
    // A program, not a library.
    exports: {},
    dependencies: versionsOf(false),
    peerDependencies: versionsOf(true),
    peerDependenciesMeta: Object.fromEntries([...OPTIONAL].map((one) => [one, { optional: true }])),
  }
}

/** Builds and packs into this folder. Returns the path of the archive. */
export const packInto = async (folder: string): Promise<string> => {
  const stage = mkdtempSync(join(tmpdir(), 'headgate-package-'))
  try {
    await build(join(stage, 'dist'))
    for (const file of FILES) {
      mkdirSync(dirname(join(stage, file)), { recursive: true })
      cpSync(join(ROOT, file), join(stage, file), { recursive: true, filter: (path) => path !== PICTURES })
    }
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify(publishedManifest(), null, 2)}\n`)
    writeFileSync(join(stage, 'sbom.cdx.json'), sbomText())
    const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', resolve(folder)], {
      cwd: stage,
      encoding: 'utf8',
      timeout: 60_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const [{ filename }] = JSON.parse(packed)
    return join(resolve(folder), filename)
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

if (import.meta.main) process.stdout.write(`${await packInto('.')}\n`)
