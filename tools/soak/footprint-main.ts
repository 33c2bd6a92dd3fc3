/** Prints the memory of an idle stream and of a stalled client: `node tools/soak/footprint-main.ts [streams]`. */
import { footprint } from './footprint.ts'

const streams = Number(process.argv[2] ?? 500)
for (const kind of ['idle', 'stalled'] as const) {
  const { used, resident } = await footprint(kind, kind === 'idle' ? streams : Math.ceil(streams / 5))
  process.stdout.write(
    `${kind}: ${(used / 1024).toFixed(1)} KiB of objects and buffers, ${(resident / 1024).toFixed(1)} KiB resident per stream\n`,
  )
}
