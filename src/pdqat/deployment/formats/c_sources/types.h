/* Numbers of height x width pixels, each with its channels. Where planes is not 0 they are stored as bit planes: a
   pixel is `planes` rows of words, and bit c % 32 of word c / 32 in row p is bit p of channel c. */
typedef struct tensor tensor;
struct tensor {
    void *data;
    int height, width, channels;
    int pixel_step, channel_step; /* numbers from one pixel, or channel, to the next */
    int planes;
    int is_signed;
    void (*read)(const tensor *from, int pixel, int32_t *row);
    void (*write)(const tensor *to, int pixel, const int32_t *row);
};

/* An operation on a pixel's row of numbers, one a channel, by the constants that it needs. Real numbers stand in a row as
   their bits. */
typedef struct row_operation row_operation;
struct row_operation {
    void (*apply)(const row_operation *how, int32_t *row, int channels, int pixel);
    const row_operation *next; /* what the row goes through behind this one */
    int observed;              /* the number of the layer whose codes it makes, from 1 on */
    const tensor *other;       /* of a sum */
    int32_t low, high;         /* the codes, or limits */
    int count;                 /* thresholds of a channel */
    int32_t divisor;           /* of the sums, before they are real numbers */
    const int32_t *thresholds; /* count for every channel */
    const int8_t *directions;  /* 1 for channels whose codes rise, -1 for those whose codes fall */
    const int32_t *slopes;
    const int64_t *starts;
    const uint8_t *shifts;
    const float *scales;
    const float *biases;
    float factor, step, least, most;
};

/* A convolution. A linear layer is one of 1 x 1 pixels. */
typedef struct {
    int groups;
    int kernel_height, kernel_width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
    int weight_bits;         /* of an index; a weight is slope x index + start */
    int row_words;           /* words of an output channel: of each plane, or of all of its packed indices */
    int32_t slope, start;
    const uint32_t *indices; /* planes or packed */
    const int8_t *bytes;     /* weights of 8 bits as they are */
    const float *reals;
    const float *biases;
    const row_operation *finish;
} convolution;

/* Windows of a pooling. */
typedef struct {
    int height, width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
    int counts_padding; /* whether averages count it */
} windows;
