/** Programs and schemas that `.ci/tools` makes from Go modules. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const FOLDER = resolve(ROOT, process.env.HEADGATE_TOOLS ?? '.cache/tools')

/** Schemas of Kubernetes by version, and of resources that other projects define (`custom`). */
export const SCHEMAS = join(FOLDER, 'schemas')

/** The schema of compose files. */
export const COMPOSE_SCHEMA = join(SCHEMAS, 'compose-spec.json')

/** The program of `.ci/tools`, otherwise the one of the path. */
export const toolPath = (name: string): string =>
  existsSync(join(FOLDER, name)) ? join(FOLDER, name) : (process.env[name.toUpperCase()] ?? name)

const mustHave = (): boolean => process.env.HEADGATE_CI === '1' && !spawnSync('go', ['version']).error

/** As below, for a test that needs a file only. */
export const skipWithoutFile = (path: string): string | false =>
  existsSync(path) || mustHave() ? false : `${basename(path)} is missing (\`.ci/tools\` copies it, with Go)`

/** The reason to skip a test. In CI, where Go builds them, a missing program is a failure. */
export const skipWithout = (name: string, ...paths: readonly string[]): string | false => {
  const hasAll = !spawnSync(toolPath(name), ['--help']).error && paths.every((path) => existsSync(path))
  return hasAll || mustHave() ? false : `${name} is missing (\`.ci/tools\` builds it, with Go)`
}

/** A program of `test/release/requirements.txt`. */
export const linterPath = (name: string): string => join(ROOT, '.cache', 'linters', 'bin', name)

export const skipWithoutLinter = (name: string): string | false =>
  existsSync(linterPath(name)) || process.env.HEADGATE_CI === '1'
    ? false
    : `${name} is missing (\`.ci/run all\` installs it)`
