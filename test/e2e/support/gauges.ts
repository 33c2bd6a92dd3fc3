/** Measurements of a running gateway: from its metrics page and from the kernel. */
import { readdir, readFile, readlink } from 'node:fs/promises'
import type { Started } from './process.ts'

/** A value of the metrics page, summed over its labels. Series need the given label, such as `why="heap"`. */
export const gauge = async ({ url }: Pick<Started, 'url'>, name: string, label = ''): Promise<number> => {
  const response = await fetch(`${url}/metrics`, { headers: { connection: 'close' } })
  const page = await response.text()
  return page
    .split('\n')
    .filter((line) => (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) && line.includes(label))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** Resident memory of a process in bytes, as reported by the kernel. */
export const residentBytes = async ({ child }: Pick<Started, 'child'>): Promise<number> => {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

/** Number of open sockets of a process, including listening ones and upstream connections. */
export const socketsOf = async ({ child }: Pick<Started, 'child'>): Promise<number> => {
  const folder = `/proc/${child.pid}/fd`
  const links = await Promise.all((await readdir(folder)).map((name) => readlink(`${folder}/${name}`).catch(() => '')))
  return links.filter((link) => link.startsWith('socket:')).length
}

/** For the `skip` of tests that read /proc. */
export const skipWithoutProc = process.platform === 'linux' ? false : 'reads /proc, which only Linux has'

/** Waits at most `ms` until a value satisfies `good`; returns the last value. */
export const settles = async (read: () => Promise<number>, good: (value: number) => boolean, ms = 60_000) => {
  let value = await read()
  for (const end = performance.now() + ms; !good(value) && performance.now() < end; value = await read())
    await new Promise((resolve) => setTimeout(resolve, 50))
  return value
}
