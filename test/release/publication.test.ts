/**
 * The publication of a release, with a registry of this test instead of the real one, and a key instead of the identity of a
 * job: images and chart are built, started, pushed, signed, and verified with the commands of SECURITY.md.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeBase } from '../../scripts/image.ts'
import { imageTags } from '../../scripts/release.ts'
import { blocksOf } from '../docs/support.ts'
import { freePorts } from '../support/ports.ts'
import { skipWithout, toolPath } from './support/tools.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

const lacks = (program: string, ...words: readonly string[]) => {
  const { error, status } = spawnSync(program, words)
  return error !== undefined || status !== 0
}
const missing =
  process.platform !== 'linux' || (process.getuid?.() !== 0 && lacks('sudo', '-n', 'true'))
    ? 'needs Linux and root'
    : lacks('buildah', '--version') || lacks('strip', '--version')
      ? 'buildah or strip is missing'
      : skipWithout('crane') || skipWithout('helm') || withoutCosign()

/** Cosign takes eight minutes to build, so that only the nightly run and developers have it. */
function withoutCosign(): string | false {
  return lacks(toolPath('cosign'), 'version') ? 'cosign is missing (`.ci/tools --signing` builds it, with Go)' : false
}

const place = missing ? '' : mkdtempSync(join(tmpdir(), 'headgate-publication-'))
const artefacts = join(place, 'artefacts')
const images = join(place, 'images')
let registry = ''
let server: ChildProcess | undefined

/** The environment of a job. Git refuses a checkout of another user, unless the configuration names it. */
const environment = () => ({
  ...process.env,
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'safe.directory',
  GIT_CONFIG_VALUE_0: '*',
  HEADGATE_REGISTRY: `${registry}/headgate`,
  HEADGATE_BASE: `docker-archive:${join(place, 'base.tar')}`,
  HEADGATE_DEBUG_BASE: `docker-archive:${join(place, 'base.tar')}`,
  DOCKER_CONFIG: join(place, 'docker'),
  REGISTRY_TOKEN: 'token-0123456789',
  COSIGN_KEY: join(place, 'cosign.key'),
  COSIGN_PASSWORD: '',
  GITHUB_OUTPUT: join(place, 'outputs'),
})

const run = (program: string, ...words: readonly string[]): string => {
  const options = { cwd: ROOT, env: environment(), encoding: 'utf8', timeout: 600_000 } as const
  const { status, stdout, stderr } = spawnSync(program, words, options)
  assert.equal(status, 0, `${program} ${words.join(' ')}\n${stdout}\n${stderr}`)
  return stdout.trim()
}
const release = (...words: readonly string[]) => run(join(ROOT, '.ci', 'release'), ...words)
const releaseImage = (...words: readonly string[]) => run(join(ROOT, '.ci', 'release-image'), ...words)
const crane = (...words: readonly string[]) => run(toolPath('crane'), ...words)
const buildah = (...words: readonly string[]) => {
  const storage = ['--root', join(place, 'storage'), '--runroot', join(place, 'run'), '--storage-driver', 'vfs']
  const command = ['buildah', ...storage, ...words]
  return process.getuid?.() === 0 ? run('buildah', ...command.slice(1)) : run('sudo', '-n', ...command)
}

/** A base of this machine's libraries, since the published one may be out of reach. */
const makeBase = (): void => {
  writeBase(join(place, 'base'), process.execPath)
  writeFileSync(join(place, 'Basefile'), 'FROM scratch\nCOPY base/ /\n')
  buildah('bud', '--quiet', '--isolation', 'chroot', '--tag', 'base', '--file', join(place, 'Basefile'), place)
  buildah('push', '--quiet', 'base', `docker-archive:${join(place, 'base.tar')}`)
}

const ARCHITECTURES = ['amd64', 'arm64'] as const
const own = process.arch === 'arm64' ? 'arm64' : 'amd64'
const other = own === 'arm64' ? 'amd64' : 'arm64'

/** The other machine's images: these ones, declared to be of the other architecture. */
const imitateOther = (): void => {
  copyFileSync(join(images, `headgate-${own}.cdx.json`), join(images, `headgate-${other}.cdx.json`))
  for (const name of ['headgate', 'headgate-debug']) {
    const container = buildah('from', `docker-archive:${join(images, `${name}-${own}.tar`)}`)
    buildah('config', '--arch', other, container)
    buildah('commit', '--quiet', '--format', 'docker', container, name)
    buildah('push', '--quiet', name, `docker-archive:${join(place, `${name}.tar`)}`)
    writeFileSync(join(images, `${name}-${other}.tar`), readFileSync(join(place, `${name}.tar`)))
  }
}

before(async () => {
  if (missing) return
  const [port = 0] = await freePorts(1)
  registry = `127.0.0.1:${port}`
  mkdirSync(join(place, 'docker'))
  writeFileSync(join(place, 'docker', 'config.json'), '{}')
  server = spawn(toolPath('crane'), ['registry', 'serve', '--address', registry], { stdio: 'ignore' })
  for (const end = performance.now() + 120_000; lacks(toolPath('crane'), 'catalog', registry); await sleep(100))
    assert.ok(performance.now() < end, 'the registry does not start')
  execFileSync(toolPath('cosign'), ['generate-key-pair'], { cwd: place, env: environment(), stdio: 'ignore' })
  makeBase()
  release('build', artefacts)
  releaseImage('build', artefacts, images)
  imitateOther()
  release('sums', artefacts, images)
  releaseImage('login', 'someone')
  releaseImage('push', `v${version}`, images)
  releaseImage('push', 'edge', images)
  releaseImage('chart', artefacts)
})
after(() => {
  server?.kill()
  if (place === '') return
  if (process.getuid?.() === 0) rmSync(place, { recursive: true, force: true })
  else execFileSync('sudo', ['-n', 'rm', '-rf', place])
})

describe('a publication', { skip: missing }, () => {
  const image = () => `${registry}/headgate/headgate`

  test('has the tags of the version, and the same image below each', () => {
    const released = run('git', 'tag', '--list', 'v*')
      .split('\n')
      .map((tag) => tag.slice(1))
    const tags = imageTags(
      version,
      released.filter((each) => each !== ''),
    )
    const found = crane('ls', image()).split('\n')
    const expected = [...tags, `${version}-debug`, 'edge']
    assert.deepEqual(found.filter((tag) => !tag.startsWith('sha256-')).sort(), expected.sort())
    const digests = new Set(tags.map((tag) => crane('digest', `${image()}:${tag}`)))
    assert.equal(digests.size, 1)
    const [digest = ''] = digests
    const outputs = readFileSync(join(place, 'outputs'), 'utf8')
    assert.ok(outputs.includes(`digest=${digest}\n`), outputs)
    assert.ok(outputs.includes(`debug_digest=${crane('digest', `${image()}:${version}-debug`)}\n`), outputs)
  })

  test('has an image for each architecture, with its labels and its health check', () => {
    const { manifests } = JSON.parse(crane('manifest', `${image()}:${version}`))
    const found = manifests.map(({ platform }: { platform: { os: string; architecture: string } }) => platform)
    assert.deepEqual(
      found,
      ARCHITECTURES.map((architecture) => ({ architecture, os: 'linux' })),
    )
    const { config, created } = JSON.parse(crane('config', '--platform', `linux/${own}`, `${image()}:${version}`))
    const time = new Date(Number(run('git', 'log', '-1', '--format=%ct')) * 1000).toISOString().replace('.000', '')
    const { 'io.buildah.version': _, ...labels } = config.Labels
    assert.deepEqual(labels, {
      'org.opencontainers.image.title': 'headgate',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.source': 'https://github.com/headgate/headgate',
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.revision': run('git', 'rev-parse', 'HEAD'),
      'org.opencontainers.image.created': time,
    })
    assert.equal(created, time)
    assert.ok(config.Healthcheck.Test.includes('health'))
  })

  test('is verified by the commands of SECURITY.md, which refuse what is not signed', () => {
    const blocks = blocksOf('sh').filter(({ page, text }) => page === 'SECURITY.md' && text.includes('cosign '))
    assert.equal(blocks.length, 2)
    // The identity of a job cannot be had here: a key takes its place.
    const key = `--key ${join(place, 'cosign.pub')} --insecure-ignore-tlog=true`
    const adapted = blocks
      .map(({ text }) => text)
      .join('')
      .replaceAll(/--certificate-identity "[^"]+" \\\n +--certificate-oidc-issuer \S+/g, key)
      .replaceAll('ghcr.io', registry)
      .replaceAll(/^cosign |\$\(crane /gm, (word) => word.replace(/\w+/, (name) => toolPath(name)))
      .replaceAll(/^(?:gh|npm) .*\n/gm, '')
    assert.equal(adapted.split(key).length, 4)
    run('env', `VERSION=${version}`, 'bash', '-euo', 'pipefail', '-c', adapted)
    crane('push', join(place, 'base.tar'), `${image()}:unsigned`)
    const words = ['verify', ...key.split(' '), `${image()}:unsigned`]
    const refused = spawnSync(toolPath('cosign'), words, { encoding: 'utf8', env: environment() })
    assert.match(refused.stderr, /no signatures found/)
  })

  test('has the bill of materials of each architecture as attestation', () => {
    for (const architecture of ARCHITECTURES) {
      const digest = crane('digest', '--platform', `linux/${architecture}`, `${image()}:${version}`)
      const key = ['--key', join(place, 'cosign.pub'), '--insecure-ignore-tlog=true']
      const attested = run(
        toolPath('cosign'),
        'verify-attestation',
        ...key,
        '--type',
        'cyclonedx',
        `${image()}@${digest}`,
      )
      // The variant with a shell has the same bytes here, where both have one base: a second attestation.
      const [first = ''] = attested.split('\n')
      const { predicate } = JSON.parse(Buffer.from(JSON.parse(first).payload, 'base64').toString())
      assert.deepEqual(predicate, JSON.parse(readFileSync(join(images, `headgate-${architecture}.cdx.json`), 'utf8')))
    }
  })

  test('has the chart that the release has', () => {
    const chart = `oci://${registry}/headgate/charts/headgate`
    run(toolPath('helm'), 'pull', chart, '--version', version, '--plain-http', '--destination', place)
    const file = join(artefacts, `headgate-chart-${version}.tgz`)
    assert.ok(readFileSync(join(place, `headgate-${version}.tgz`)).equals(readFileSync(file)))
  })

  test('has checksums of all files, and a documentation that a web server can serve', () => {
    const sums = execFileSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: artefacts, encoding: 'utf8' })
    const names = [...sums.matchAll(/^(.*): OK$/gm)].map(([, name]) => name)
    assert.deepEqual(names.sort(), globSync('*', { cwd: artefacts, exclude: ['SHA256SUMS'] }).sort())
    assert.ok(names.includes(`sbom-image-${own}.cdx.json`))
    release('site', artefacts, join(place, 'site'))
    for (const file of ['index.html', 'docs/index.html', 'docs/errors.html', 'llms.txt'])
      assert.ok(existsSync(join(place, 'site', file)), file)
  })
})
