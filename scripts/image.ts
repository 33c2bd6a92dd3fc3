/**
 * Writes the folder from which the image is built, without a container engine: `npm run image`.
 *
 *   npm run image [-- --arch arm64] [--out FOLDER]    the folder (.cache/image)
 *   npm run image -- --base FOLDER                    also a base from this machine's Debian, where no registry can be reached
 *   npm run image -- --package FILE                   with this archive of \`npm run package\`, instead of a new one
 *
 * Node is the pinned npm package of the architecture; the libraries for cloud sign-ins are included. Every package has the
 * version of the lockfile.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { PACKAGES } from './build.ts'
import { closureOf } from './locked.ts'
import { packInto, publishedManifest } from './package.ts'
import { debianComponent, imageSbomText, type OtherComponent } from './sbom.ts'

const ROOT = join(import.meta.dirname, '..')

const npm = (folder: string, verb: 'ci' | 'install', more: readonly string[] = []): void => {
  const args = ['--prefix', folder, '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync('npm', [verb, ...args, ...more], { stdio: ['ignore', 'ignore', 'inherit'] })
}

/** Installs the packed package and the libraries for cloud sign-ins, all dependencies in the versions of the lockfile. */
const installInto = (folder: string, packed: string): void => {
  const { name, version, dependencies, peerDependencies, bin } = publishedManifest()
  const own = { [name]: `file:${basename(packed)}` }
  copyFileSync(packed, join(folder, basename(packed)))
  const manifest = { name: 'app', private: true, dependencies: { ...own, ...peerDependencies } }
  const integrity = `sha512-${createHash('sha512').update(readFileSync(packed)).digest('base64')}`
  const packages = {
    '': { name: 'app', dependencies: manifest.dependencies },
    [`node_modules/${name}`]: { version, resolved: own[name], integrity, dependencies, peerDependencies, bin },
    ...Object.fromEntries(closureOf('package-lock.json', PACKAGES).map((one) => [one.folder, one.entry])),
  }
  const lockfile = { name: 'app', lockfileVersion: 3, requires: true, packages }
  const files = { 'package.json': manifest, 'package-lock.json': lockfile }
  for (const [file, value] of Object.entries(files)) writeFileSync(join(folder, file), JSON.stringify(value))
  npm(folder, 'ci')
  for (const file of [...Object.keys(files), basename(packed)]) rmSync(join(folder, file))
}

/** Node of an architecture, without symbols where this machine can strip it. */
const writeNode = (arch: string, file: string): void => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'tools', 'node', 'package.json'), 'utf8'))
  const name = `node-linux-${arch}`
  const version: unknown = optionalDependencies[name]
  if (typeof version !== 'string') throw new Error(`no Node for "${arch}"; x64 and arm64 are available`)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-node-'))
  try {
    npm(folder, 'install', ['--no-save', '--force', '--os=linux', `--cpu=${arch}`, `${name}@${version}`])
    cpSync(join(folder, 'node_modules', name, 'bin', 'node'), file)
    chmodSync(file, 0o755)
    if (arch === process.arch) execFileSync('strip', [file])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Writes `Dockerfile`, `rootfs`, `data` and the bill of materials into an emptied folder. `packed`: the archive to install. */
export const writeImageFolder = async (
  folder: string,
  { arch = process.arch, packed }: { readonly arch?: string; readonly packed?: string } = {},
): Promise<void> => {
  rmSync(folder, { recursive: true, force: true })
  const rootfs = join(folder, 'rootfs')
  mkdirSync(join(rootfs, 'usr', 'bin'), { recursive: true })
  mkdirSync(join(rootfs, 'app'))
  mkdirSync(join(folder, 'data'))
  if (packed !== undefined) installInto(join(rootfs, 'app'), packed)
  else {
    const own = await packInto(folder)
    installInto(join(rootfs, 'app'), own)
    rmSync(own)
  }
  writeNode(arch, join(rootfs, 'usr', 'bin', 'node'))
  cpSync(join(ROOT, 'deploy', 'image', 'Dockerfile'), join(folder, 'Dockerfile'))
  writeFileSync(join(folder, SBOM), imageSbomText(arch))
}

/** The bill of materials of the image, beside its Dockerfile. */
const SBOM = 'sbom.cdx.json'

const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'

/** The packages of Debian that own these files. */
const debianPackages = (files: readonly string[]): readonly OtherComponent[] => {
  // With /lib as a link to /usr/lib, a package may have recorded either path.
  const paths = files.flatMap((file) => [file, `/usr${file}`, file.replace(/^\/usr(?=\/lib)/, '')])
  const { stdout: owners } = spawnSync('dpkg-query', ['--search', ...new Set(paths)], { encoding: 'utf8' })
  const names = [...owners.matchAll(/^([a-z0-9][a-z0-9+.-]+)(?::\w+)?: /gm)].map(([, name = '']) => name)
  // A script of the package writes the file with all certificates.
  if (files.includes(CERTIFICATES)) names.push('ca-certificates')
  // Its default format: the name, perhaps with the architecture, a tab and the version.
  const versions = execFileSync('dpkg-query', ['--show', ...new Set(names)], { encoding: 'utf8' })
  return versions
    .trim()
    .split('\n')
    .sort()
    .map((line) => {
      const [name = '', version = ''] = line.split('\t')
      return debianComponent(name.replace(/:.*/, ''), version)
    })
}

/** What `ldd` and the name service of glibc load, certificates and users: enough for Node, and no program. Returns its packages. */
export const writeBase = (folder: string, node: string): readonly OtherComponent[] => {
  const loaded = execFileSync('ldd', [node], { encoding: 'utf8' })
  const libraries = [...loaded.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, file]) => file ?? '')
  const parent = dirname(libraries.find((file) => file.includes('libc.so')) ?? '')
  const others = ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2'].map((name) => join(parent, name))
  const files = [...libraries, ...others, CERTIFICATES, '/usr/share/zoneinfo/UTC']
  const present = files.filter((one) => existsSync(one))
  for (const file of present) {
    mkdirSync(join(folder, dirname(file)), { recursive: true })
    copyFileSync(file, join(folder, file))
  }
  mkdirSync(join(folder, 'tmp'), { recursive: true })
  chmodSync(join(folder, 'tmp'), 0o1777)
  writeFileSync(join(folder, 'etc', 'passwd'), 'nonroot:x:65532:65532::/data:/sbin/nologin\n')
  writeFileSync(join(folder, 'etc', 'group'), 'nonroot:x:65532:\n')
  writeFileSync(join(folder, 'etc', 'nsswitch.conf'), 'hosts: files dns\n')
  return debianPackages(present)
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: process.arch },
      out: { type: 'string', default: join(ROOT, '.cache', 'image') },
      base: { type: 'string' },
      package: { type: 'string' },
    },
  })
  const folder = resolve(values.out)
  const packed = values.package === undefined ? {} : { packed: resolve(values.package) }
  await writeImageFolder(folder, { arch: values.arch, ...packed })
  if (values.base !== undefined) {
    const base = writeBase(resolve(values.base), join(folder, 'rootfs', 'usr', 'bin', 'node'))
    writeFileSync(join(folder, SBOM), imageSbomText(values.arch, base))
  }
  process.stdout.write(`${folder}\n  docker build -t headgate ${folder}\n`)
}
