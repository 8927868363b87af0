/* A pixel of a convolution of real numbers. A sum starts with the bias, then come rows of the window, columns,
   channels. */
KERNEL void convolve_real(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    int channels = from->channels / layer->groups, outputs = to->channels / layer->groups;
    int terms = layer->kernel_height * layer->kernel_width * channels;
    window at = window_at(layer, from, to, pixel);
    for (int output = 0; output < to->channels; output++) {
        const float *weights = layer->reals + output * terms;
        int first = output / outputs * channels;
        float sum = layer->biases[output];
        for (int row = 0; row < layer->kernel_height; row++)
            for (int column = 0; column < layer->kernel_width; column++, weights += channels) {
                int y = at.top + row * layer->dilation_y, x = at.left + column * layer->dilation_x;
                if (!at.is_inside && is_outside(from, y, x))
                    continue;
                for (int channel = 0; channel < channels; channel++) {
                    float product = weights[channel] * real_at(from, y * from->width + x, first + channel);
                    sum += product;
                }
            }
        arena.row[output] = as_bits(sum);
    }
}
