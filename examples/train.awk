# A training loop in awk: gradient descent on a bowl, with noise that a larger batch averages out.
# It continues from its checkpoint, reports its learning curve and prints the loss last. examples/study.toml tunes it.
#
#   awk -v lr=0.1 -v momentum=0.5 -v batch=8 -v epochs=9 -v seed=1 -v state=/tmp/state -f train.awk
BEGIN {
    x = 4; y = -3; vx = vy = 0; epoch = 0; r = seed % 2147483647
    file = state "/state.txt"
    if (state != "" && (getline line < file) > 0) {
        split(line, was, " ")
        epoch = was[1]; x = was[2]; y = was[3]; vx = was[4]; vy = was[5]; r = was[6]
        close(file)
    }
    while (epoch < epochs) {
        vx = momentum * vx - lr * (2 * (x - 1) + noise() / sqrt(batch))
        vy = momentum * vy - lr * (20 * (y - 2) + noise() / sqrt(batch))
        x += vx; y += vy; epoch++
        if (loss() > 1e6) { print "diverged in epoch " epoch > "/dev/stderr"; exit 3 }
        printf "{\"step\": %d, \"loss\": %.17g}\n", epoch, loss()
    }
    if (state != "") printf "%d %.17g %.17g %.17g %.17g %.17g\n", epoch, x, y, vx, vy, r > file
    printf "{\"loss\": %.17g, \"cost\": %d, \"info\": {\"x\": %.6g, \"y\": %.6g}}\n", loss(), batch * epochs, x, y
}
function loss() { return (x - 1) ^ 2 + 10 * (y - 2) ^ 2 }
function noise() { r = (16807 * r) % 2147483647; return 8 * (r / 2147483647 - 0.5) }
