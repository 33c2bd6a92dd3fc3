/**
 * The image: its folder is written, built by buildah without a daemon, and its root file system started read-only as the
 * image's user. Needs root, for mounts and chroot.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { glob } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeBase, writeImageFolder } from '../../scripts/image.ts'
import { publishedManifest } from '../../scripts/package.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { walk } from './support/walk.ts'

const missing =
  process.platform !== 'linux' || process.getuid?.() !== 0
    ? 'needs Linux and root'
    : spawnSync('strip', ['--version']).error
      ? 'strip is missing (binutils)'
      : spawnSync('unshare', ['--mount', 'true']).status !== 0
        ? 'mounts are not permitted here'
        : false
const UID = 65_532
const NAME = 'headgate-image-test'

const place = missing ? '' : mkdtempSync(join(tmpdir(), 'headgate-image-'))
const root = join(place, 'root')
let upstream: Upstream
let base: ReturnType<typeof writeBase>

before(async () => {
  if (missing) return
  await writeImageFolder(join(place, 'image'))
  base = writeBase(join(place, 'base'), join(place, 'image', 'rootfs', 'usr', 'bin', 'node'))
  for (const part of [join(place, 'base'), join(place, 'image', 'rootfs')]) cpSync(part, root, { recursive: true })
  mkdirSync(join(root, 'data'))
  upstream = await startUpstream((request) => answerWith(request, { text: 'from afar' }, { gap: 50 }))
})
after(async () => {
  await upstream?.close()
  if (place !== '') rmSync(place, { recursive: true, force: true })
})

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address ? address.port : assert.fail()
}

/** The program of the image on its root file system: read-only but for /data, with its user and no capability. */
const MOUNT = `set -e
mount --bind "$1" "$1"
mount -t tmpfs -o uid=${UID},gid=${UID},mode=700 tmpfs "$1/data"
mount -o remount,ro,bind "$1"
shift_root="$1"; shift
exec setpriv --no-new-privs chroot --userspec=${UID}:${UID} "$shift_root" "$@"`
const PROGRAM = ['/usr/bin/node', '/app/node_modules/headgate/bin/headgate.mjs']

const begin = async (): Promise<{
  readonly child: ChildProcess
  readonly url: string
  readonly output: () => string
}> => {
  const port = await freePort()
  const env = { NODE_ENV: 'production', DATA_DIR: '/data', HOST: '127.0.0.1', PORT: String(port), DRAIN_DELAY: '0' }
  const more = { OPENAI_API_KEY: 'sk-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1`, OPENAI_MODELS: 'm' }
  const child = spawn('unshare', ['--mount', 'sh', '-c', MOUNT, 'sh', root, ...PROGRAM], {
    env: { PATH: process.env.PATH ?? '', ...env, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text) => (output += text))
  for (const end = performance.now() + 120_000; !output.includes('"event":"ready"'); await sleep(50))
    assert.ok(performance.now() < end && child.exitCode === null, output)
  return { child, url: `http://127.0.0.1:${port}`, output: () => output }
}

describe('the image', { skip: missing }, () => {
  test('answers on a read-only root as its user; after SIGTERM it ends a stream whole, and itself with 0', async () => {
    const { child, url, output } = await begin()
    const ask = (more: object) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...more }),
      })
    const health = () =>
      spawnSync('chroot', [`--userspec=${UID}:${UID}`, root, ...PROGRAM, 'health', '--url', url], {
        encoding: 'utf8',
        timeout: 20_000,
      })
    try {
      assert.match(await (await ask({})).text(), /from afar/)
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      assert.match(status, new RegExp(`^Uid:\\s+${UID}\\s+${UID}`, 'm'))
      assert.match(status, /^CapEff:\s+0+$/m)
      assert.match(status, /^NoNewPrivs:\s+1$/m)
      const { status: isHealthy, stderr } = health()
      assert.equal(isHealthy, 0, stderr)
      // The answer has begun, and not ended.
      const streamed = await ask({ stream: true })
      child.kill('SIGTERM')
      assert.ok((await streamed.text()).endsWith('data: [DONE]\n\n'))
    } finally {
      child.kill('SIGTERM')
      if (child.exitCode === null) await once(child, 'exit')
    }
    assert.equal(child.exitCode, 0, output())
    assert.equal(health().status, 4)
  })

  test('is small: Node, Headgate with the packages for cloud sign-ins, and the base', () => {
    const sizes = globSync('**/*', { cwd: root, withFileTypes: true }).map((entry) =>
      entry.isFile() ? statSync(join(entry.parentPath, entry.name)).size : 0,
    )
    const size = sizes.reduce((sum, each) => sum + each, 0)
    assert.ok(size < 145_000_000, `${size} bytes`)
  })

  test('contains no shell, no setuid file and nothing that its user may change', async () => {
    const found: string[] = []
    for await (const file of glob('**/*', { cwd: root })) {
      const { mode, uid } = statSync(join(root, file), { throwIfNoEntry: false }) ?? { mode: 0, uid: 0 }
      const isOpen = (mode & 0o2) !== 0 && (mode & 0o1000) === 0
      if ((mode & 0o6000) !== 0 || isOpen || uid === UID) found.push(file)
      if (/(?:^|\/)(?:sh|bash|dash|busybox|apt|dpkg)$/.test(file)) found.push(file)
    }
    assert.deepEqual(found, [])
  })

  test('its bill of materials has what is in it', () => {
    const { components } = JSON.parse(readFileSync(join(place, 'image', 'sbom.cdx.json'), 'utf8'))
    const named = new Set(
      components.map(
        ({ group, name, version }: Record<string, string>) => `${group ? `${group}/` : ''}${name}@${version}`,
      ),
    )
    const manifests = globSync('app/**/node_modules/{*,@*/*}/package.json', { cwd: root })
    const installed = manifests
      .map((file) => JSON.parse(readFileSync(join(root, file), 'utf8')))
      .filter(({ name, version }) => name !== 'headgate' && version !== undefined)
    assert.ok(installed.length > 20)
    for (const { name, version } of installed) assert.ok(named.has(`${name}@${version}`), `${name}@${version}`)
    const node = spawnSync(join(root, 'usr', 'bin', 'node'), ['--version'], { encoding: 'utf8' })
      .stdout.trim()
      .slice(1)
    assert.ok(named.has(`node-linux-${process.arch}@${node}`), node)
    assert.ok(components.some(({ type }: { readonly type: string }) => type === 'container'))
    for (const name of ['libc6', 'libstdc++6', 'ca-certificates'])
      assert.ok(
        base.some((each) => each.name === name),
        name,
      )
  })

  test('its root alone leads to a first answer, as docs/deploy/image.md says', async () => {
    chownSync(join(root, 'data'), UID, UID)
    const printed = await walk('docs/deploy/image.md', {
      cwd: place,
      env: { PATH: process.env.PATH ?? '' },
      // The program of the image in its root, with the port of the running one.
      replace: {
        'docker exec headgate': `DATA_DIR=/data chroot --userspec=${UID}:${UID} root`,
        'docker cp headgate:': 'cp root',
      },
    })
    assert.match(printed, /hgk_/)
    assert.ok(statSync(join(place, 'headgate-backup.tar.gz')).size > 0)
    assert.match(printed, /"object":"chat\.completion".*\[demo\]/)
    assert.match(printed, /event: message_stop/)
  })

  test('is built by buildah without a daemon', {
    skip: spawnSync('buildah', ['--version']).error ? 'buildah is missing' : false,
  }, () => {
    const storage = ['--root', join(place, 'storage'), '--runroot', join(place, 'run'), '--storage-driver', 'vfs']
    const buildah = (...words: string[]): string => {
      const { status, stdout, stderr } = spawnSync('buildah', [...storage, ...words], {
        encoding: 'utf8',
        timeout: 300_000,
      })
      assert.equal(status, 0, stderr)
      return stdout
    }
    writeFileSync(join(place, 'Basefile'), 'FROM scratch\nCOPY base/ /\n')
    buildah('bud', '--isolation', 'chroot', '-q', '-t', `${NAME}-base`, '-f', join(place, 'Basefile'), place)
    const base = `BASE=localhost/${NAME}-base`
    const options = ['--format', 'docker', '--isolation', 'chroot', '-q', '--build-arg', base, '-t', NAME]
    buildah('bud', ...options, join(place, 'image'))
    const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', NAME))
    const { User, Entrypoint, Healthcheck, ExposedPorts, Labels } = Docker.config
    assert.equal(Labels['org.opencontainers.image.version'], publishedManifest().version)
    assert.equal(User, `${UID}:${UID}`)
    assert.deepEqual(Entrypoint, PROGRAM)
    assert.deepEqual(Healthcheck.Test.slice(0, 4), ['CMD', ...PROGRAM, 'health'])
    assert.deepEqual(Object.keys(ExposedPorts), ['3000/tcp'])
    const container = buildah('from', NAME).trim()
    const folder = buildah('mount', container).trim()
    assert.equal(statSync(join(folder, 'data')).uid, UID)
    assert.ok(existsSync(join(folder, 'app', 'node_modules', 'headgate', 'dist', 'main.mjs')))
    buildah('umount', container)
  })
})
