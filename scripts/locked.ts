/** What a lockfile of npm states about packages and about all they need. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type JsonObject, object, parseJson, text } from '../src/core/json.ts'

const ROOT = join(import.meta.dirname, '..')

/** A package of a lockfile, with its folder there and the folders of what it depends on. */
export type Locked = {
  readonly name: string
  /** `node_modules/ws`, or below another package. */
  readonly folder: string
  /** Its version, integrity and dependencies. */
  readonly entry: JsonObject
  readonly dependsOn: readonly string[]
}

export const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace('@', '%40')}@${version}`
export const refOf = ({ name, entry }: Locked): string => purlOf(name, text(entry.version) ?? '')

/** Where Node finds a package that is imported in a folder: in its own node_modules, or in those of the folders above. */
const resolveFrom = (packages: JsonObject, folder: string, name: string): string | undefined => {
  for (let place = folder; ; place = place.slice(0, Math.max(0, place.lastIndexOf('/node_modules/')))) {
    const found = place === '' ? `node_modules/${name}` : `${place}/node_modules/${name}`
    if (packages[found] !== undefined) return found
    if (place === '') return undefined
  }
}

/** The packages that these need, with all they need in turn. */
export const closureOf = (lockfile: string, names: readonly string[]): readonly Locked[] => {
  const packages = object(object(parseJson(readFileSync(join(ROOT, lockfile), 'utf8')))?.packages) ?? {}
  const found = new Map<string, Locked>()
  const add = (folder: string): void => {
    if (found.has(folder)) return
    const entry = object(packages[folder]) ?? {}
    // Optional packages and peers that are not installed are those that a package can do without.
    const needed = [
      ...Object.keys(object(entry.dependencies) ?? {}),
      ...Object.keys(object(entry.optionalDependencies) ?? {}),
      ...Object.keys(object(entry.peerDependencies) ?? {}),
    ]
    const folders = needed.flatMap((name) => resolveFrom(packages, folder, name) ?? [])
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
    found.set(folder, { name, folder, entry, dependsOn: folders })
    folders.forEach(add)
  }
  for (const name of names) add(resolveFrom(packages, '', name) ?? '')
  return [...found.values()].map((each) => ({
    ...each,
    dependsOn: each.dependsOn.flatMap((folder) => {
      const other = found.get(folder)
      return other ? [refOf(other)] : []
    }),
  }))
}
