// Tune a function from Node: ask for a trial, evaluate it, tell its loss. Start this script as often as you have cores.
// Usage: node any_language.mjs study.toml [options of bohb ask, such as --max-trials 30]
import { spawnSync } from "node:child_process";

const [study, ...options] = process.argv.slice(2);
const COMPLETE = 4; // the exit code of `bohb ask` when no trial is left

function bohb(args, input) {
  const { error, status, stdout } = spawnSync("bohb", args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });
  if (error) throw error;
  return { status, stdout };
}

// Your training: it may be asynchronous, and may throw.
async function train({ config, budget }) {
  return (Math.log(config.lr) + 4) ** 2 + 1 / budget;
}

for (;;) {
  const asked = bohb(["ask", study, "--lease", "1h", "--wait", "1h", ...options]);
  if (asked.status === COMPLETE) break;
  if (asked.status !== 0) process.exit(asked.status);
  const trial = JSON.parse(asked.stdout);
  const result = await train(trial).then((loss) => ({ loss }), (error) => ({ failed: String(error) }));
  const told = bohb(["tell", study], JSON.stringify({ ...trial, ...result }) + "\n");
  if (told.status !== 0) process.exit(told.status);
  process.stdout.write(told.stdout);
}
process.stdout.write(bohb(["best", study]).stdout);
