/** What a running gateway says it holds, and what its kernel says. */
import { readdir, readFile, readlink } from 'node:fs/promises'
import type { Started } from './process.ts'

/** A figure of the metrics page, summed over its labels; those given have to be there, as `why="heap"`. */
export const gauge = async ({ url }: Pick<Started, 'url'>, name: string, label = ''): Promise<number> => {
  const response = await fetch(`${url}/metrics`, { headers: { connection: 'close' } })
  const page = await response.text()
  return page
    .split('\n')
    .filter((line) => (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) && line.includes(label))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** Bytes of memory a process has, as the kernel counts them. */
export const residentBytes = async ({ child }: Pick<Started, 'child'>): Promise<number> => {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

/** Sockets a process has open, those it listens on and its connections to upstreams included. */
export const socketsOf = async ({ child }: Pick<Started, 'child'>): Promise<number> => {
  const folder = `/proc/${child.pid}/fd`
  const links = await Promise.all((await readdir(folder)).map((name) => readlink(`${folder}/${name}`).catch(() => '')))
  return links.filter((link) => link.startsWith('socket:')).length
}

/** For the `skip` of a test that reads them: there is no /proc elsewhere. */
export const skipWithoutProc = process.platform === 'linux' ? false : 'reads /proc, which only Linux has'

/** Waits until a figure is what it should be, at most `ms`; gives back the last one seen. */
export const settles = async (read: () => Promise<number>, good: (value: number) => boolean, ms = 15_000) => {
  let value = await read()
  for (const end = performance.now() + ms; !good(value) && performance.now() < end; value = await read())
    await new Promise((resolve) => setTimeout(resolve, 50))
  return value
}
